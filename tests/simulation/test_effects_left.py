"""An effect in doubt is counted and listed, whatever the end of its chunk.

True workers on the simulated AWS: the bank never answers, and has neither keys nor a
lookup.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from pydantic import BaseModel

from piecework import Context, Dependency, Effect, PermanentError, Pipeline, Stage
from piecework.domain.chunk import Chunk
from piecework.domain.job import Job
from piecework.domain.moments import iso, moment
from piecework.explain.causes import find
from piecework.explain.findings import Finding
from piecework.explain.situation import read_situation
from piecework_orchestrator.operate.effects import (
    ResolutionRequest,
    effects_in_doubt,
    effects_in_flight,
    resolve,
)
from piecework_orchestrator.reading.job_documents import job_document
from tests.unit.orchestrator.simulated import REF, Simulated, simulate

bank = Dependency("bank", effect=Effect.NON_IDEMPOTENT, timeout=5.0)


class Item(BaseModel):
    n: int = 0


async def charge(n: int, *, idempotency_key: str = "") -> str:
    """Charge a customer, and give no answer."""
    del idempotency_key
    await asyncio.sleep(1_000)
    return str(n)


async def careless(ctx: Context[Item]) -> str:
    """Succeed, whatever the bank says."""
    try:
        return await ctx.call(bank, charge, ctx.payload.n)
    except PermanentError:
        return "who knows"


async def careful(ctx: Context[Item]) -> str:
    """Fail if the bank does not answer."""
    return await ctx.call(bank, charge, ctx.payload.n)


async def listed(at: Simulated) -> list[dict[str, Any]]:
    """Return the effects in doubt of the job."""
    return [row async for row in effects_in_doubt(at.rt, await at.ended())]


async def known(at: Simulated) -> tuple[Any, ...]:
    """Return what job, certificate and explanation tell of effects in doubt."""
    job = await at.ended()
    shown = await job_document(at.rt, job)
    codes = [each.kind.code for each in find(await read_situation(at.rt, job))]
    certified = shown["certificate"]["effects_in_doubt"]
    return shown["effects_in_doubt"], certified, "effects.in_doubt" in codes


@pytest.mark.parametrize("run", [careless, careful])
def test_an_effect_in_doubt_is_counted_until_it_is_resolved(run: Any) -> None:
    pipeline = Pipeline("bank", payload=Item, stages=[Stage(run, name="pay")])
    said: list[str] = []

    async def act(at: Simulated) -> list[Any]:
        await at.submit(pipeline, [Item(n=1), Item(n=2)])
        found = [await known(at), await listed(at)]
        for row in found[1]:
            request = ResolutionRequest(row["effect_key"], None, "ann", "not there")
            await resolve(at.rt, REF.chunk(row["chunk"]), request)
        return [*found, await known(at), await listed(at)]

    before, rows, after, left = simulate(act, [pipeline], said=said.append)

    certified = {"0": 1, "1": 1}
    assert (2, certified, True) == before
    assert [(0, "UNKNOWN"), (1, "UNKNOWN")] == [(r["chunk"], r["state"]) for r in rows]
    assert (0, certified, False) == after
    assert [] == left
    assert 2 == sum(line.startswith("chunk.effects_in_doubt") for line in said)


def test_a_chunk_that_waits_for_a_lost_request_does_not_look_like_progress() -> None:
    slow = replace(bank, timeout=120.0)

    async def pay(ctx: Context[Item]) -> str:
        return await ctx.call(slow, charge, ctx.payload.n)

    pipeline = Pipeline("bank", payload=Item, stages=[Stage(pay, name="pay")])

    async def act(at: Simulated) -> tuple[Any, ...]:
        await at.submit(pipeline, [Item()])
        await seen(at, lambda chunk: chunk.status == "RUNNING")
        await asyncio.sleep(5.0)  # the bank has the request
        first = await explained(at)
        at.world.kill(next(iter(at.fleet.workers)))
        chunk = await seen(at, lambda chunk: chunk.fence > 1)
        held = await explained(at), await effects_in_flight(at.rt, await job_of(at))
        await at.ended()
        return first, chunk, *held, await explained(at), await listed(at)

    first, chunk, held, waits, after, left = simulate(
        act, [pipeline], workers=1, lease_s=6.0
    )

    assert "job.progressing" == first[0].kind.code
    assert "effects.in_flight" == held[0].kind.code
    assert "job.progressing" not in [each.kind.code for each in held]
    assert (1, iso(moment(chunk.claimed_at) + 120)) == (held[0].chunks, held[0].until)
    assert [held[0].until] == [each.until for each in waits]
    assert "effects.in_flight" not in [each.kind.code for each in after]
    assert ["UNKNOWN"] == [row["state"] for row in left]


async def seen(at: Simulated, is_so: Callable[[Chunk], bool]) -> Chunk:
    """Wait for a state of the only chunk."""
    while True:
        [chunk] = await at.chunks()
        if is_so(chunk):
            return chunk
        await asyncio.sleep(0.5)


async def job_of(at: Simulated) -> Job:
    job = await at.rt.jobs.read(REF)
    assert job is not None
    return job


async def explained(at: Simulated) -> list[Finding]:
    """Return the findings of the job, the most important first."""
    return find(await read_situation(at.rt, await job_of(at)))


def test_a_chunk_without_doubt_counts_none() -> None:
    async def run(ctx: Context[Item]) -> int:
        return ctx.payload.n

    pipeline = Pipeline("bank", payload=Item, stages=[Stage(run, name="pay")])

    async def act(at: Simulated) -> list[Any]:
        await at.submit(pipeline, [Item()])
        found = [*await known(at), await listed(at)]
        [chunk] = await at.chunks()
        return [*found, "effects_in_doubt" in chunk.item]

    assert [0, {}, False, [], False] == simulate(act, [pipeline])
