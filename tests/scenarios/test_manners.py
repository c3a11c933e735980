"""Guarantee: a platform that watches, protects and stops a worker learns its state.

The true processes run, as in a container. Times are scaled down, and their relations
are the real ones.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from pathlib import Path

import pytest

from piecework.domain.states import ChunkStatus, JobStatus
from piecework_worker import ecs
from piecework_worker.health import find_problem
from piecework_worker.process import run_side_tasks
from piecework_worker.stopping import Stop
from piecework_worker.worker import SHUTDOWN_MARGIN_S
from tests.scenarios import pipelines
from tests.scenarios.conftest import ROOT, Scenario
from tests.scenarios.pipelines import Item, blocking, counting
from tests.unit.workers.ecs_stub import TASK, agent


async def health() -> tuple[int, str]:
    """Check as a container engine does; return the exit code, and what was said."""
    check = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "piecework_worker.health"),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
    )
    said, _ = await check.communicate()
    return check.returncode or 0, said.decode().strip()


async def healthy() -> bool:
    return await health() == (0, "healthy")


def sickness_of(path: Path) -> str:
    """Look where the check looks, without a process of its own."""
    return find_problem(str(path), time.monotonic())


@pytest.fixture
def health_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "health"
    monkeypatch.setenv("PIECEWORK_HEALTH_FILE", str(path))
    return path


@pytest.mark.usefixtures("short_leases")
async def test_a_worker_whose_event_loop_is_blocked_is_found(
    machine: Scenario, health_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with agent() as gone:
        pass  # an ECS agent that is down makes no difference to anything here
    monkeypatch.setenv("ECS_AGENT_URI", f"{gone.url}/api/c1")
    monkeypatch.setenv("ECS_CONTAINER_METADATA_URI_V4", f"{gone.url}/v4/c1")
    await machine.submit(counting, [Item(n=1, trouble="block")])
    assert (1, f"unhealthy: {health_file} was not written yet") == await health()
    await machine.process()
    await machine.until(lambda: machine.happened("second"))
    assert await healthy()

    await machine.until(lambda: "event loop is" in sickness_of(health_file))
    code, said = await health()
    machine.fix()
    assert (code, "event loop is" in said) == (1, True)
    assert (await machine.ended()).status is JobStatus.SUCCEEDED
    await machine.until(lambda: sickness_of(health_file) == "")


@pytest.mark.usefixtures("short_leases")
async def test_a_frozen_reconciler_is_found_and_a_stopped_one_ends_well(
    machine: Scenario, health_file: Path
) -> None:
    command = (
        sys.executable,
        "-m",
        "piecework_orchestrator",
        "reconcile",
        "--loop",
    )
    reconciler = await asyncio.create_subprocess_exec(*command, cwd=ROOT)
    try:
        await machine.until(health_file.exists)
        assert await healthy()
        reconciler.send_signal(signal.SIGSTOP)

        await machine.until(lambda: "event loop is" in sickness_of(health_file))
        reconciler.send_signal(signal.SIGCONT)
        reconciler.send_signal(signal.SIGTERM)
        assert 0 == await asyncio.wait_for(reconciler.wait(), SHUTDOWN_MARGIN_S)
    finally:
        if reconciler.returncode is None:
            reconciler.kill()
            await reconciler.wait()


async def test_a_worker_on_ecs_is_protected_while_it_works_and_has_its_tasks_name(
    machine: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    await machine.submit(counting, [Item(n=1, seconds=60.0)])
    async with agent() as stub:
        monkeypatch.setenv("ECS_AGENT_URI", f"{stub.url}/api/c1")
        monkeypatch.setenv("ECS_CONTAINER_METADATA_URI_V4", f"{stub.url}/v4/c1")
        worker = await machine.process()
        await machine.until(lambda: stub.asked)
        (chunk,) = await machine.chunks()

        assert f"{TASK[:12]}-{worker.process.pid}" == chunk.item["claimed_by"]
        assert [True] == stub.wishes
        assert 0 == await worker.stop()
        assert [True, False] == stub.wishes


async def test_a_paused_worker_takes_nothing_until_it_is_protected_again(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, seconds in {
        "PAUSE_AFTER_S": 0.5,
        "PAUSE_IDLE_S": 0.2,
        "UNPROTECTED_S": 0.5,
    }.items():
        monkeypatch.setattr(ecs, name, seconds)
    monkeypatch.setattr(ecs, "POLL_S", 0.02)
    monkeypatch.setattr(pipelines, "trouble", until_fixed)
    await scenario.submit(counting, [Item(n=1)], job="long")

    async with agent() as stub, scenario.worker() as worker:
        stub.asked = Noted()
        async with run_side_tasks(
            worker, Stop(), {"ECS_AGENT_URI": f"{stub.url}/api/c1"}
        ):
            await scenario.until(lambda: worker.receiver.paused)
            await scenario.until(lambda: worker.count_unfinished() == 1)
            await scenario.submit(counting, [Item(n=2)], job="next")
            scenario.fix()
            assert (await scenario.ended("next")).status is JobStatus.SUCCEEDED

    lines = [" ".join(line) for line in scenario.ledger if line[0] != "join"]
    let_go = lines.index("protection False")
    assert 1 == lines[:let_go].count("first 0")
    assert ["protection True", "first 0"] == lines[let_go + 1 : let_go + 3]


class Noted(list[dict[str, object]]):
    """Has what the agent is asked for in the ledger, among what the stages do."""

    def append(self, wish: dict[str, object]) -> None:
        pipelines.note("protection", wish["ProtectionEnabled"])
        super().append(wish)


async def until_fixed(_: object) -> None:
    while not pipelines.fixed():  # noqa: ASYNC110 -- a file sets no event
        await asyncio.sleep(0.01)


async def test_a_stop_ends_in_time_whatever_is_active(machine: Scenario) -> None:
    jobs = {"task": counting, "thread": blocking}
    for job, pipeline in jobs.items():
        await machine.submit(pipeline, [Item(n=1, seconds=100.0)], job=job)
    worker = await machine.process("--no-reconcile")
    for stage in ("second", "grind"):
        await machine.until(lambda stage=stage: machine.happened(stage))
    now = asyncio.get_running_loop().time
    began = now()

    assert 0 == await worker.stop()

    assert now() - began <= machine.rt.settings.shutdown_grace_s + SHUTDOWN_MARGIN_S
    for job in jobs:
        (chunk,) = await machine.chunks(job)
        assert (ChunkStatus.WAITING, 0) == (chunk.status, chunk.attempts)
        assert 1 == chunk.item["releases"]
