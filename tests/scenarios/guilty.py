"""A pipeline in which an input kills, blocks or interrupts the worker that runs it."""

from __future__ import annotations

import asyncio
import os
import time

from piecework import Context, Dependency, Pipeline, Stage
from tests.scenarios.pipelines import QUICK, Item, note

model = Dependency("model", retry=QUICK)

#: Seconds for which `block` keeps the event loop: longer than any lease of a test.
BLOCK_S = 120.0


class PanicException(BaseException):
    """As pyo3 raises it where Rust code panics; it is not an Exception."""


async def ask(n: int, *, idempotency_key: str) -> int:
    """Simulate a paid call."""
    note("ask", n, idempotency_key)
    await asyncio.sleep(0.05)
    return n


async def work(ctx: Context[Item]) -> int:
    """Make one call, then the trouble of the payload."""
    note("work", ctx.chunk, os.getpid())
    answer = await ctx.call(model, ask, ctx.payload.n)
    await asyncio.sleep(ctx.payload.seconds)
    match ctx.payload.trouble:
        case "kill":
            os.abort()
        case "block":
            time.sleep(BLOCK_S)  # noqa: ASYNC251 -- the mistake that is tried
        case "interrupt":
            raise KeyboardInterrupt
        case "interrupt in a task":
            await asyncio.create_task(interrupted())
        case "panic":
            raise PanicException("called `Option::unwrap()` on a `None` value")
        case "poison":
            os.kill(os.getpid(), 9)
    return answer


async def interrupted() -> None:
    """Raise in a task of the stage's own: asyncio passes it on to the loop."""
    raise KeyboardInterrupt


guilty = Pipeline(name="guilty", payload=Item, stages=[Stage(work)])
