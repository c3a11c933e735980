"""How long a takeover and a cancel take, in virtual time, which no load changes."""

from __future__ import annotations

import asyncio
from functools import partial
from random import Random

import pytest
from pydantic import BaseModel

from piecework import Context, Pipeline, Stage
from piecework.settings import Settings
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


LEASE_S = Settings().lease_s


async def stop_of_a_claim(here: Simulated, phase: float, *, all_die: bool) -> float:
    """Kill the owner of the chunk at a phase of its lease; return the seconds until
    another worker has claimed it."""
    await here.submit(napping, [Nap()])
    await fence_reaches(here, 1)
    await asyncio.sleep(LEASE_S * (1 + phase))
    (chunk,) = await here.chunks()
    owner = chunk.item["claimed_by"]
    for process in tuple(here.fleet.workers):
        if all_die or process.name == owner:
            here.world.kill(process)
    killed_at = here.world.loop.time()
    return await fence_reaches(here, 2) - killed_at


@pytest.mark.parametrize("all_die", [False, True])
def test_a_chunk_is_taken_over_when_its_lease_is_over(*, all_die: bool) -> None:
    phases = Random(45)
    took = [
        simulate(
            partial(stop_of_a_claim, phase=phases.random(), all_die=all_die),
            [napping],
            workers=2,
            seed=seed,
        )
        for seed in range(10)
    ]
    assert max(took) <= LEASE_S + 2.0 <= 20.0, sorted(took)
    assert min(took) >= LEASE_S / 2, sorted(took)


async def end_after_a_kill(here: Simulated, seconds: float) -> float:
    """Kill all workers of a job of short chunks; return the seconds until its end."""
    await here.submit(napping, [Nap(seconds=0.05)] * 300)
    await asyncio.sleep(seconds)
    for process in tuple(here.fleet.workers):
        here.world.kill(process)
    killed_at = here.world.loop.time()
    await here.ended()
    took = here.world.loop.time() - killed_at
    assert any(chunk.takeovers for chunk in await here.chunks())
    return took


def test_the_end_of_a_job_of_short_chunks_waits_for_one_lease() -> None:
    moments = Random(46)
    took = [
        simulate(
            partial(end_after_a_kill, seconds=moments.uniform(0.1, 0.5)),
            [napping],
            workers=2,
            seed=seed,
        )
        for seed in range(10)
    ]
    assert max(took) <= LEASE_S + 4.0, sorted(took)


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
