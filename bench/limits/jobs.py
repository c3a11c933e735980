"""The two jobs that are recorded: chunks that do nothing, and chunks that call."""

from __future__ import annotations

import asyncio
from typing import Final

from pydantic import BaseModel

from piecework import Context, Dependency, Pipeline, Stage

#: Calls of each stage, and seconds of a call: together longer than the journal lingers.
CALLS: Final = 5
CALL_S: Final = 0.08


class Number(BaseModel):
    """The payload of a chunk."""

    n: int


async def do_nothing(ctx: Context[Number]) -> int:
    """Do nothing."""
    return ctx.payload.n


async def answer(n: int, *, idempotency_key: str) -> int:
    """Replace a remote service."""
    del idempotency_key
    await asyncio.sleep(CALL_S)
    return n


service = Dependency("service")


async def calls(ctx: Context[Number]) -> int:
    """Make a few calls, one after the other; their answers are remembered."""
    return sum([await ctx.call(service, answer, n) for n in range(CALLS)])


async def read(ctx: Context[Number]) -> int:
    """Be the first of three stages."""
    return await calls(ctx)


async def second(ctx: Context[Number]) -> int:
    """Be the second."""
    return await calls(ctx)


async def write(ctx: Context[Number]) -> int:
    """Run the last stage; its value is the result."""
    return await calls(ctx)


PIPELINES: Final = {
    "no calls": Pipeline(name="no-calls", payload=Number, stages=[Stage(do_nothing)]),
    "three stages": Pipeline(
        name="three-stages",
        payload=Number,
        stages=[Stage(read), Stage(second), Stage(write)],
    ),
}
