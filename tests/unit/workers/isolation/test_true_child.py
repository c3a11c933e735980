"""What only a process of its own shows."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from piecework.errors import TransientError
from piecework_worker.isolation import process
from piecework_worker.isolation.pool import Isolation
from tests.unit.piecework.fakes import Log, context
from tests.unit.workers.isolation.forking import Paper, forking


async def never(*_: Any) -> None:
    await asyncio.Event().wait()


@pytest.fixture
async def place() -> AsyncIterator[Isolation]:
    names = ["tests.unit.workers.isolation.forking"]
    isolation = Isolation(names, "w", 0, Log())  # type: ignore[arg-type]
    yield isolation
    await isolation.close()


async def run(place: Isolation, stage: int, text: str = "", attempt: int = 1) -> str:
    name, payload = forking.stages[stage].name, Paper(text=text)
    ctx = context(forking, stage=name, payload=payload, attempt=attempt)
    return await place.run(forking.stages[stage], ctx)


async def until(happened: Callable[[], bool]) -> None:
    """Wait for something in another process."""
    async with asyncio.timeout(10):
        while not happened():  # noqa: ASYNC110 -- nothing here tells of it
            await asyncio.sleep(0.01)


def alive(pid: int) -> bool:
    """Return whether a process lives; its parent may take a while to reap it."""
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and ") Z " not in stat.read_text()


async def test_a_stage_can_end_the_processes_that_it_has_started(
    place: Isolation,
) -> None:
    assert f"{-signal.SIGTERM}" == await run(place, 0)


async def test_what_a_stage_waits_for_ends_with_its_process(
    place: Isolation, tmp_path: Path
) -> None:
    said = tmp_path / "pid"
    running = asyncio.create_task(run(place, 1, str(said)))
    await until(lambda: said.exists() and said.read_text() != "")
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    await until(lambda: not alive(int(said.read_text())))


async def test_what_a_stage_waits_for_ends_when_its_process_dies(
    place: Isolation, tmp_path: Path
) -> None:
    said = tmp_path / "pid"
    with pytest.raises(TransientError, match="exit code 3"):
        await run(place, 1, str(said), attempt=2)

    await until(lambda: not alive(int(said.read_text())))


async def test_a_stage_that_leaks_has_a_fresh_process_before_it_fills_the_machine(
    place: Isolation,
) -> None:
    first, second, third = [await run(place, 2) for _ in range(3)]

    assert first == second
    assert second != third


async def test_each_call_of_a_plain_client_has_a_thread(place: Isolation) -> None:
    assert "40" == await run(place, 3)


async def test_a_start_that_is_cut_off_leaves_no_process_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started: list[asyncio.subprocess.Process] = []
    begin = asyncio.create_subprocess_exec

    async def noted(*words: Any, **facts: Any) -> asyncio.subprocess.Process:
        del words
        detached = facts["start_new_session"]
        started.append(await begin("/bin/sleep", "60", start_new_session=detached))
        return started[0]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", noted)
    monkeypatch.setattr(process, "open_channel", never)
    starting = asyncio.create_task(process.start([], "w", process.Place.current()))
    await until(lambda: bool(started))
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting

    async with asyncio.timeout(5):
        assert -signal.SIGKILL == await started[0].wait()
