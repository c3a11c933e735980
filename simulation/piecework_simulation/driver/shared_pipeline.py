"""Define the built-in pipeline whose chunks make equal calls once."""

from __future__ import annotations

from dataclasses import replace

from piecework import Context, Pipeline, SequenceNumbers, Stage, TimeWindow
from piecework_simulation.driver.pipelines import Item, model, score, shop, trouble

notices = replace(model, name="notices", by=TimeWindow(120.0), scope="all")
steps = replace(
    shop,
    name="steps",
    by=SequenceNumbers(of=lambda number, **_: number),
    scope=lambda job, **_: job,
)
#: Chunks that make the same call, and that enter the same step.
EQUAL = 2


async def enter(job: str, number: int, *, idempotency_key: str) -> str:
    """Enter a step of a job into the books of a provider."""
    del idempotency_key
    return f"{job}-{number}"


async def notify(ctx: Context[Item]) -> int:
    """Make a call that other chunks and jobs make, too."""
    return await ctx.call(notices, score, ctx.payload.n % EQUAL)


async def step(ctx: Context[Item]) -> str:
    """Enter the step of the chunk, which has a neighbour with the same number."""
    trouble(ctx, "step")
    return await ctx.call(steps, enter, ctx.job, ctx.payload.n // EQUAL + 1)


sharing = Pipeline("sharing", payload=Item, stages=[Stage(notify), Stage(step)])
