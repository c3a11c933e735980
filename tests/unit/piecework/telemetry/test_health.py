"""The health file is fresh while the event loop runs."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from piecework.telemetry.health import LEAST_S, Liveness, write, write_health_file
from piecework_worker.health import find_problem
from tests.unit.piecework.fakes import Log
from tests.unit.virtual import run_virtually

LEASE = 60.0


def due(path: Path) -> dict[str, float]:
    found: dict[str, float] = json.loads(path.read_text())["due"]
    return found


def run(work: Any) -> None:
    run_virtually(work)


def test_a_loop_is_due_until_it_rests(tmp_path: Path) -> None:
    async def story() -> None:
        liveness, path = Liveness(), tmp_path / "health"
        liveness.expect_within("lease renewal", 20.0)
        write(liveness, path)
        assert {"lease renewal": 1020.0} == due(path)
        assert "" == find_problem(str(path), 1020.0)
        assert "lease renewal is 0.5 s overdue" == find_problem(str(path), 1020.5)
        liveness.suspend("lease renewal")
        write(liveness, path)
        assert {} == due(path)

    run(story())


def test_a_health_file_from_before_a_restart_is_unhealthy(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        liveness, path = Liveness(), tmp_path / "health"
        liveness.expect_within("lease renewal", 20.0)
        write(liveness, path)
        assert f"{path} is of before a restart" == find_problem(str(path), 5.0)

    run(story())


@pytest.mark.parametrize(("again_in", "seconds"), [(LEASE, LEASE), (0.5, LEAST_S)])
def test_a_blocked_event_loop_is_overdue_after_a_lease(
    again_in: float, seconds: float, tmp_path: Path
) -> None:
    async def story() -> None:
        path = tmp_path / "health"
        showing = asyncio.create_task(
            write_health_file(Liveness(), str(path), again_in, Log())
        )
        await asyncio.sleep(10.5)
        showing.cancel()
        assert {"event loop": 1010.0 + seconds} == due(path)

    run(story())


def test_the_health_file_is_replaced_atomically(tmp_path: Path) -> None:
    async def story() -> None:
        for _ in range(3):
            write(Liveness({"lease renewal": 1.0}), tmp_path / "health")

    run(story())
    assert ["health"] == [path.name for path in tmp_path.iterdir()]


def test_an_unwritable_health_file_is_emitted_once_and_stops_nothing(
    tmp_path: Path,
) -> None:
    log = Log()

    async def story() -> None:
        (tmp_path / "file").touch()
        file = str(tmp_path / "file" / "health")
        showing = asyncio.create_task(write_health_file(Liveness(), file, LEASE, log))
        await asyncio.sleep(5.5)
        assert not showing.done()
        showing.cancel()

    run(story())
    assert ["health.unwritable"] == log.names()


def test_without_a_file_there_is_nothing_to_do() -> None:
    run(write_health_file(Liveness(), "", LEASE, Log()))


def test_the_file_is_written_again_when_its_folder_is_there(tmp_path: Path) -> None:
    async def story() -> None:
        log, folder = Log(), tmp_path / "run"
        path = folder / "health"
        writing = asyncio.create_task(
            write_health_file(Liveness(), str(path), LEASE, log)
        )
        await asyncio.sleep(1.5)
        assert path.exists()
        for _ in range(2):
            path.unlink()
            folder.rmdir()
            folder.touch()  # as good as a full disk
            await asyncio.sleep(3)
            folder.unlink()
            await asyncio.sleep(1.5)
            assert path.exists()
        writing.cancel()
        assert ["health.unwritable"] * 2 == log.names()

    run(story())
