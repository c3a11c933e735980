"""A refusal by AWS is an outage of the store: chunks wait, and spend no attempt."""

from __future__ import annotations

import asyncio

import pytest

from piecework import Context, Pipeline, Stage
from piecework.domain.states import JobStatus
from tests.scenarios.pipelines import Item
from tests.unit.orchestrator.simulated import Simulated, simulate


async def count(ctx: Context[Item]) -> int:
    await asyncio.sleep(5.0)
    return ctx.payload.n


counting = Pipeline("counting", payload=Item, stages=[Stage(count)])


@pytest.mark.parametrize(
    ("service", "from_s", "for_s", "waits"),
    [
        ("s3", 0.0, 600.0, True),
        ("sqs", 0.0, 600.0, False),
        ("dynamodb", 0.0, 600.0, False),
        # The refusal begins while the stages run, and ends within their leases.
        ("dynamodb", 3.0, 10.0, False),
    ],
)
def test_a_service_that_refuses_costs_time_and_no_chunk(
    service: str, from_s: float, for_s: float, *, waits: bool
) -> None:
    async def act(sim: Simulated) -> tuple[JobStatus, list[int], bool]:
        await sim.submit(counting, [Item(n=n) for n in range(4)])
        loop, denied = asyncio.get_running_loop(), sim.world.faults.denied
        loop.call_later(from_s, denied.add, service)
        loop.call_later(from_s + for_s, denied.discard, service)
        await asyncio.sleep(0.0)
        sim.fleet.worker(reconcile=True)
        await asyncio.sleep(from_s + for_s + 1.0)
        job, chunks = await sim.ended(), await sim.chunks()
        waited = all(chunk.outages > 0 for chunk in chunks)
        return job.status, [chunk.attempts for chunk in chunks], waited

    outcome = simulate(act, [counting], workers=0, max_attempts=1)

    assert (JobStatus.SUCCEEDED, [1] * 4, waits) == outcome
