"""How long a takeover and a cancel take, in virtual time, which no load changes."""

from __future__ import annotations

import asyncio

import pytest
from pydantic import BaseModel

from piecework import Context, Pipeline, Stage
from piecework_orchestrator.operate.cancel import cancel
from piecework_orchestrator.reading.job_documents import job_document
from tests.unit.orchestrator.simulated import REF, Simulated, simulate


class Nap(BaseModel):
    """A chunk."""

    seconds: float = 1000.0


async def nap(ctx: Context[Nap]) -> None:
    """Take long."""
    await asyncio.sleep(ctx.payload.seconds)


async def undo(_: Context[Nap]) -> None:
    """Compensate."""


napping = Pipeline(
    name="napping",
    payload=Nap,
    stages=[Stage(nap, compensate=undo, undo_if_failed=True)],
)


async def fence_reaches(here: Simulated, fence: int) -> float:
    """Wait for a claim of the only chunk; return the time."""
    while (await here.chunks())[0].fence < fence:  # noqa: ASYNC110 -- the table sets no event
        await asyncio.sleep(0.25)
    return here.world.loop.time()


def test_another_worker_takes_over_soon_after_the_lease_of_a_killed_one() -> None:
    async def act(here: Simulated) -> float:
        await here.submit(napping, [Nap()])
        await fence_reaches(here, 1)
        (chunk,) = await here.chunks()
        owner = next(
            process
            for process in here.fleet.workers
            if process.name == chunk.item["claimed_by"]
        )
        here.world.kill(owner)
        killed_at = here.world.loop.time()
        return await fence_reaches(here, 2) - killed_at

    took = simulate(act, [napping], workers=2, max_attempts=3)
    # A lease of 60 s, a clock skew of 5 s, and at most two passes of a reconciler.
    assert 40.0 < took <= 80.0


@pytest.mark.parametrize("compensate", [False, True])
def test_a_cancelled_job_quiesces_within_two_seconds(*, compensate: bool) -> None:
    async def act(here: Simulated) -> dict[str, object]:
        await here.submit(napping, [Nap() for _ in range(20)])
        await asyncio.sleep(5.0)
        assert 20 == sum(chunk.fence for chunk in await here.chunks())
        await cancel(here.rt, REF, actor="me", reason="enough", compensate=compensate)
        shown = await job_document(here.rt, await here.ended())
        found: dict[str, object] = shown["cancel"]
        return found

    shown = simulate(act, [napping], workers=2)
    assert 0.0 <= float(str(shown["quiesced_after_s"])) <= 2.0
    assert 0 == shown["calls_after_cancel"]
