"""Guarantee: the processes of a worker start, report and stop as one worker."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from piecework.domain.rows import PROCESS, worker_of
from piecework.domain.states import ChunkStatus
from piecework.store.workers import read_reports
from piecework_worker.health import find_problem
from piecework_worker.processes import MARGIN_S
from piecework_worker.worker import SHUTDOWN_MARGIN_S
from tests.scenarios.conftest import PATIENCE_S, ROOT, Scenario
from tests.scenarios.pipelines import Item, counting
from tests.unit.workers.ecs_stub import TASK, agent

TWO = ("--processes", "2", "--max-chunks", "1")


async def owners(machine: Scenario) -> list[str]:
    """Return the owner of each chunk that has one."""
    return [chunk.claimed_by for chunk in await machine.chunks() if chunk.claimed_by]


def pid_of(owner: str) -> int:
    return int(owner.partition(PROCESS)[2])


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # A dead process without a parent that waits for it is there in name only.
    return ") Z " not in Path(f"/proc/{pid}/stat").read_text()


def is_file(name: str) -> bool:
    return Path(name).exists()


async def both_busy(machine: Scenario) -> list[str]:
    """Wait until each process runs a chunk; return the processes."""

    async def has_two() -> bool:
        return len(set(await owners(machine))) == 2

    await machine.until(has_two)
    return sorted(await owners(machine))


async def test_two_processes_report_stop_and_are_protected_as_one_worker(
    machine: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    await machine.submit(counting, [Item(n=n, seconds=60.0) for n in range(3)])
    async with agent() as stub:
        monkeypatch.setenv("ECS_AGENT_URI", f"{stub.url}/api/c1")
        monkeypatch.setenv("ECS_CONTAINER_METADATA_URI_V4", f"{stub.url}/v4/c1")
        worker = await machine.process(*TWO)
        busy = await both_busy(machine)
        name = f"{TASK[:12]}-{worker.process.pid}"
        assert {name} == {worker_of(owner) for owner in busy}

        async def has_reported() -> bool:
            return any(r.in_progress == 2 for r in await read_reports(machine.rt.table))

        await machine.until(has_reported)
        reports = await read_reports(machine.rt.table)
        own = [each for each in reports if each.worker.startswith(name)]
        assert [(name, 2, 2)] == [(r.worker, r.max_chunks, r.in_progress) for r in own]

        assert 0 == await worker.stop()
        assert [True, False] == stub.wishes
    assert not any(is_running(pid_of(owner)) for owner in busy)
    chunks = await machine.chunks()
    assert [1, 1, 0] == sorted((c.releases for c in chunks), reverse=True)
    assert [] == await owners(machine)
    reports = await read_reports(machine.rt.table)
    assert [True] == [r.has_stopped for r in reports if r.worker == name]


@pytest.mark.usefixtures("short_leases")
async def test_a_killed_process_is_replaced_and_its_chunk_is_taken_over(
    machine: Scenario,
) -> None:
    machine.hold("call")
    await machine.submit(counting, [Item(n=n, calls=1) for n in range(2)])
    worker = await machine.process(*TWO)
    killed, other = await both_busy(machine)
    lost = [chunk.claimed_by for chunk in await machine.chunks()].index(killed)
    await machine.until(lambda: machine.happened("held") == 2)
    machine.release("call")

    # The slot of the other process is taken, so only a new process can go on.
    os.kill(pid_of(killed), signal.SIGKILL)

    async def has_gone_on() -> bool:
        return (await machine.chunks())[lost].status is ChunkStatus.SUCCEEDED

    await machine.until(has_gone_on)
    chunks = await machine.chunks()
    assert 2 == chunks[lost].fence
    assert (1, other) == (chunks[1 - lost].fence, chunks[1 - lost].claimed_by)
    assert chunks[lost].ended_by not in {killed, other}
    assert worker_of(killed) == worker_of(chunks[lost].ended_by)
    assert 0 == await worker.stop()


async def test_the_processes_of_a_killed_parent_release_their_chunks_and_end(
    machine: Scenario,
) -> None:
    await machine.submit(counting, [Item(n=n, seconds=60.0) for n in range(3)])
    worker = await machine.process(*TWO)
    busy = await both_busy(machine)
    await worker.kill()

    await machine.until(lambda: not any(is_running(pid_of(each)) for each in busy))
    chunks = await machine.chunks()
    assert [1, 1, 0] == sorted((c.releases for c in chunks), reverse=True)
    assert 2 == machine.happened("first")  # the third chunk was not claimed


async def test_one_health_file_names_the_frozen_process(
    machine: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "health"
    monkeypatch.setenv("PIECEWORK_HEALTH_FILE", str(path))
    monkeypatch.setenv("PIECEWORK_LEASE_S", "4")
    monkeypatch.setenv("PIECEWORK_VISIBILITY_S", "5")

    def sickness() -> str:
        return find_problem(str(path), time.monotonic())

    await machine.submit(counting, [Item(n=n, seconds=60.0) for n in range(2)])
    worker = await machine.process(*TWO)
    frozen, _ = await both_busy(machine)
    await machine.until(lambda: sickness() == "")

    os.kill(pid_of(frozen), signal.SIGSTOP)
    await machine.until(lambda: "event loop of process" in sickness())
    os.kill(pid_of(frozen), signal.SIGCONT)
    await machine.until(lambda: sickness() == "")
    assert 0 == await worker.stop()
    assert [] == [n for n in (1, 2) if is_file(f"{path}.process-{n}")]


async def test_an_error_of_the_settings_is_told_once_and_ends_the_worker() -> None:
    words = ("-m", "piecework_worker", "--pipelines", "none_of_ours", *TWO)
    worker = await asyncio.create_subprocess_exec(
        sys.executable, *words, cwd=ROOT, stderr=asyncio.subprocess.PIPE
    )
    _, said = await asyncio.wait_for(worker.communicate(), PATIENCE_S)
    assert (2, 1) == (worker.returncode, said.count(b"pipeline.module.not_found"))


def test_the_parent_waits_as_long_as_a_process_needs() -> None:
    assert SHUTDOWN_MARGIN_S <= MARGIN_S
