"""Define the workloads as Piecework pipelines; `BENCH_CONFIG` selects the run.

They write to the same ledger, through the same code, as the rivals.
"""

from __future__ import annotations

import asyncio
import os
import time
from functools import cache
from pathlib import Path

from pydantic import BaseModel

from bench.rivals import protocol
from piecework import (
    Context,
    Dependency,
    Pipeline,
    Results,
    RetryPolicy,
    Stage,
    TransientError,
)


class Task(BaseModel):
    """A chunk: its number."""

    n: int


@cache
def tasks() -> protocol.Tasks:
    """Return the task implementation of this run."""
    return protocol.Tasks(protocol.read(Path(os.environ["BENCH_CONFIG"])))


async def task(ctx: Context[Task]) -> int:
    """Do a task of W1 or W3."""
    await tasks().aperform(f"{ctx.job}.{ctx.payload.n}")
    return ctx.payload.n


async def compute(ctx: Context[Task]) -> int:
    """Use the CPU for some time; a stage that computes blocks the event loop."""
    name, config = f"{ctx.job}.{ctx.payload.n}", tasks().config
    tasks().ledger.start(name)
    until = time.thread_time() + config.sleep_s
    while time.thread_time() < until:
        pass
    tasks().ledger.done(name)
    return ctx.payload.n


async def hold(ctx: Context[Task]) -> int:
    """Take some time; the ledger has the end, too, if a cancel interrupts it."""
    name, config = f"{ctx.job}.{ctx.payload.n}", tasks().config
    tasks().ledger.start(name)
    try:
        await asyncio.sleep(config.sleep_s)
    finally:
        tasks().ledger.done(name)
    return ctx.payload.n


async def ask(chunk: int, number: int, *, idempotency_key: str) -> str:  # noqa: ARG001 -- the key is for providers
    """Make a call of W2."""
    try:
        return await tasks().acall(chunk, number)
    except protocol.CallFailedError as error:
        raise TransientError(str(error), code="llm.provider.overloaded") from error


model = Dependency("model", retry=RetryPolicy(attempts=3, base=0.02, cap=0.05))


async def call_all(ctx: Context[Task]) -> int:
    """Make the calls of a W2 chunk: with the worker's concurrency, or in turn."""
    n, ledger = ctx.payload.n, tasks().ledger
    ledger.start(str(n))

    async def call(chunk: int, number: int) -> None:
        await ctx.call(model, ask, chunk, number)

    await tasks().each_call(str(n), call)
    ledger.done(str(n))
    return tasks().config.calls


async def done(ctx: Results) -> int:
    """Count the results."""
    found = 0
    async for _ in ctx:
        found += 1
    return found


plain = Pipeline("plain", payload=Task, stages=[Stage(task)])
computing = Pipeline("computing", payload=Task, stages=[Stage(compute)])
held = Pipeline("held", payload=Task, stages=[Stage(hold)])
calling = Pipeline("calling", payload=Task, stages=[Stage(call_all)], join=done)
