"""Guarantee: 22 chunks of 116 calls each all end, although 5 % of the calls fail."""

from __future__ import annotations

import asyncio
from collections import Counter

from pydantic import BaseModel

from piecework import Context, Dependency, Pipeline, RetryPolicy, Stage
from piecework.client import Client, Done
from piecework.domain.states import JobStatus
from piecework.errors import TransientError
from piecework.settings import Settings
from piecework_simulation.in_process import InProcessAws, worker_beside

CHUNKS, CALLS = 22, 116
model = Dependency("model", layer="llm", retry=RetryPolicy(attempts=4, base=0.001))
made: Counter[tuple[int, int]] = Counter()
seen: list[asyncio.Event] = []


class Clause(BaseModel):
    """A payload."""

    n: int


async def score(n: int, category: int) -> int:
    """Answer; each twentieth call fails the first time."""
    made[n, category] += 1
    if made[n, category] == 1 and (n * CALLS + category) % 20 == 0:
        raise TransientError("the model is overloaded")
    return category


async def review(ctx: Context[Clause]) -> int:
    """Ask 116 times; the last chunk waits until a result was seen."""
    if ctx.payload.n == CHUNKS - 1:
        await seen[-1].wait()
    scores = [await ctx.call(model, score, ctx.payload.n, c) for c in range(CALLS)]
    return sum(scores)


reviews = Pipeline("reviews", payload=Clause, stages=[Stage(review)])


async def test_each_of_the_2552_calls_is_paid_once_and_no_chunk_is_missing() -> None:
    made.clear()
    seen.append(asyncio.Event())
    aws = InProcessAws(Settings(receive_wait_s=1, max_chunks=4))
    async with Client(runtime=aws.runtime()) as client:
        job = await client.submit(reviews, [Clause(n=n) for n in range(CHUNKS)])
        async with worker_beside(aws, {"reviews": reviews}, [__name__]):
            results = job.results()
            first = await anext(results)
            seen[-1].set()
            items = [first, *[item async for item in results]]
            end = await job.wait()

    assert {item.chunk for item in items} == set(range(CHUNKS))
    assert {item.value for item in items if isinstance(item, Done)} == {
        sum(range(CALLS))
    }
    assert end.status is JobStatus.SUCCEEDED
    assert made.total() == CHUNKS * CALLS + len(range(0, CHUNKS * CALLS, 20))
