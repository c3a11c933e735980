"""Guarantee: a worker that is told to stop leaves in time, whatever its stages do."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from piecework.domain.states import ChunkStatus, JobStatus
from piecework_worker.worker import SHUTDOWN_MARGIN_S
from tests.scenarios.conftest import ROOT, Process, Scenario
from tests.scenarios.pipelines import Item, counting
from tests.scenarios.stubborn import stubborn

MODULE = "tests.scenarios.stubborn"
GRACE_S = 0.5


@pytest.mark.parametrize(
    ("troubles", "number", "released"),
    [
        (["swallow", "thread", "exit", "process", "fork"], signal.SIGTERM, 4),
        (["ignore", "remove"], signal.SIGHUP, 2),
        (["block"], signal.SIGTERM, 0),
    ],
)
async def test_a_worker_leaves_whatever_its_stages_have_left(
    machine: Scenario,
    monkeypatch: pytest.MonkeyPatch,
    troubles: list[str],
    number: signal.Signals,
    released: int,
) -> None:
    monkeypatch.setenv("PIECEWORK_SHUTDOWN_GRACE_S", str(GRACE_S))
    items = [Item(n=n, trouble=trouble) for n, trouble in enumerate(troubles)]
    await machine.submit(stubborn, items)
    worker = await machine.process("--no-reconcile", pipelines=MODULE)
    for trouble in troubles:
        await machine.until(lambda trouble=trouble: machine.happened("began", trouble))
    for each in (signal.SIGTERM, signal.SIGHUP):  # until a change is noticed
        await machine.until(lambda each=each: handles(worker.process.pid, each))

    began = time.monotonic()
    worker.process.send_signal(number)
    assert 0 == await asyncio.wait_for(worker.process.wait(), 30)

    assert time.monotonic() - began <= GRACE_S + SHUTDOWN_MARGIN_S
    forks = [int(line[1]) for line in machine.ledger if line[0] == "fork"]
    assert not [pid for pid in forks if is_alive(pid)]
    chunks = await machine.chunks()
    assert released == sum(c.status is ChunkStatus.WAITING for c in chunks)


async def test_output_that_cannot_be_written_stops_no_chunk(
    machine: Scenario, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    health = tmp_path / "run" / "health"
    monkeypatch.setenv("PIECEWORK_HEALTH_FILE", str(health))
    monkeypatch.setenv("PIECEWORK_LOG_LEVEL", "debug")
    with Path("/dev/full").open("wb") as full:  # noqa: ASYNC230 -- a device
        worker = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "piecework_worker"),
            *("--pipelines", "tests.scenarios.pipelines"),
            cwd=ROOT,
            stdout=full,
            stderr=full,
        )
    machine.processes.append(Process(worker))
    await machine.until(health.exists)
    health.unlink()
    health.parent.rmdir()
    await machine.submit(counting, [Item(n=1)])

    assert (await machine.ended()).status is JobStatus.SUCCEEDED
    await machine.until(health.exists)
    assert 0 == await machine.processes[-1].stop()


def handles(pid: int, number: signal.Signals) -> bool:
    """Return whether a process has a handler for a signal."""
    status = Path(f"/proc/{pid}/status").read_text("ascii")
    caught = next(line for line in status.splitlines() if line.startswith("SigCgt"))
    return bool(int(caught.split()[1], 16) & 1 << number - 1)


def is_alive(pid: int) -> bool:
    """Return whether a process runs; one that ended may not have been awaited."""
    with suppress(FileNotFoundError):
        stat = Path(f"/proc/{pid}/stat").read_text("ascii")
        return stat.rpartition(")")[2].split()[0] != "Z"
    return False
