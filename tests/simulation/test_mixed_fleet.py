"""Workers with different pipelines on one deployment, in virtual time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from piecework import Context, Pipeline, Stage
from piecework.domain.model import JobStatus
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
