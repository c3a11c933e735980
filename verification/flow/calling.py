"""The pipelines that worker processes run against the stub provider of `make flow`."""

from __future__ import annotations

import asyncio
import functools
import os
from dataclasses import replace

import aiohttp
from pydantic import BaseModel

from piecework import Context, Dependency, Limits, Pipeline, RetryPolicy, Stage

#: The environment variable with the address of the provider.
PROVIDER_VARIABLE = "FLOW_PROVIDER"
REQUESTS = 600

free = Dependency("free", layer="llm")
metered = Dependency(
    "metered",
    layer="llm",
    retry=RetryPolicy(attempts=10, retry_time=600.0),
    limits=Limits(requests_per_minute=REQUESTS),
)


#: A dependency that allows so many requests in any second, and its limit.
A_SECOND = 10
brisk = replace(
    metered, name="brisk", limits=Limits(requests_per_second=A_SECOND), breaker=None
)


class Batch(BaseModel):
    """A chunk: so many calls, all made at once."""

    n: int
    calls: int


async def ask(n: int) -> int:
    """Send one request to the provider.

    Raises:
        aiohttp.ClientResponseError: The provider refused it with 429.
    """
    address = os.environ[PROVIDER_VARIABLE]
    async with session().get(address, params={"n": str(n)}) as answer:
        await answer.read()
    return n


@functools.cache
def session() -> aiohttp.ClientSession:
    """Return the one session of this process, as a client of a provider has it."""
    return aiohttp.ClientSession(raise_for_status=True)


async def ask_limited(ctx: Context[Batch]) -> int:
    """Make all calls of the chunk under the limit of the fleet."""
    return await ask_all(ctx, metered)


async def ask_briskly(ctx: Context[Batch]) -> int:
    """Make all calls of the chunk under a limit for each second."""
    return await ask_all(ctx, brisk)


async def ask_freely(ctx: Context[Batch]) -> int:
    """Make all calls of the chunk."""
    return await ask_all(ctx, free)


async def ask_all(ctx: Context[Batch], dependency: Dependency) -> int:
    """Make all calls of a chunk at once; return how many."""
    first, calls = ctx.payload.n * 1_000, range(ctx.payload.calls)
    answers = (ctx.call(dependency, ask, first + call) for call in calls)
    return len(await asyncio.gather(*answers))


limited = Pipeline("limited", payload=Batch, stages=[Stage(ask_limited)])
each_second = Pipeline("each-second", payload=Batch, stages=[Stage(ask_briskly)])
unlimited = Pipeline("unlimited", payload=Batch, stages=[Stage(ask_freely)])
