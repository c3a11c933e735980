"""Pipelines and jobs that share the workers of one deployment, in virtual time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from piecework import Context, Pipeline, Stage
from piecework.domain.priority import Priority
from piecework.domain.refs import JobRef
from piecework.domain.states import JobStatus
from piecework_simulation.driver.pipelines import Item
from piecework_simulation.driver.processes import FleetDriver
from tests.unit.orchestrator.simulated import Simulated, simulate

CHUNKS = 200
SECONDS = 4.0


async def work(ctx: Context[Item]) -> int:
    """Take some seconds."""
    await asyncio.sleep(SECONDS)
    return ctx.payload.n


async def other_work(ctx: Context[Item]) -> int:
    """Be a stage of the other pipeline."""
    return ctx.payload.n


wanted = Pipeline("wanted", payload=Item, stages=[Stage(work)])
other = Pipeline("other", payload=Item, stages=[Stage(other_work)])


def makespan_s(strangers: int) -> tuple[float, dict[str, Any]]:
    """Return the seconds of a job beside workers without its pipeline."""

    async def act(sim: Simulated) -> tuple[float, dict[str, Any]]:
        for _ in range(strangers):
            FleetDriver(sim.world, {"other": other}, sim.fleet.log).worker(
                reconcile=False
            )
        began = asyncio.get_running_loop().time()
        await sim.submit(wanted, [Item(n=n) for n in range(CHUNKS)])
        job = await sim.ended()
        assert JobStatus.SUCCEEDED is job.status
        reason = job.status_reason or {}
        return asyncio.get_running_loop().time() - began, reason

    return simulate(act, [wanted])


def test_a_worker_without_the_pipeline_delays_no_job() -> None:
    alone, _ = makespan_s(0)
    beside, reason = makespan_s(2)
    assert beside < 1.15 * alone
    assert "runtime.pipeline.unknown" == reason["code"]
    assert "does not have pipeline wanted" in reason["message"]
    assert alone == pytest.approx(CHUNKS / 16 * SECONDS, rel=0.2)


@pytest.mark.parametrize("large_priority", [Priority.NORMAL, Priority.HIGH])
def test_a_small_job_starts_among_the_next_chunks_of_a_large_one(
    large_priority: Priority,
) -> None:
    started: list[int] = []

    async def note(ctx: Context[Item]) -> int:
        started.append(ctx.payload.calls)
        await asyncio.sleep(SECONDS)
        return ctx.payload.n

    sharing = Pipeline("sharing", payload=Item, stages=[Stage(note)])

    async def act(sim: Simulated) -> list[int]:
        large = JobRef("default", "large")
        items = [Item(n=n, calls=0) for n in range(400)]
        more: dict[str, Any] = {"priority": large_priority, "mortal": False}
        assert await sim.fleet.submit(large, sharing, items, **more) == "done"
        await asyncio.sleep(6 * SECONDS)
        before = len(started)
        await sim.submit(sharing, [Item(n=n, calls=1) for n in range(20)])
        await sim.ended()
        return started[before:]

    after = simulate(act, [sharing])
    last = max(n for n, small in enumerate(after) if small)
    assert sum(after) == 20
    assert last < 60, "three waves of a worker with 16 slots"
