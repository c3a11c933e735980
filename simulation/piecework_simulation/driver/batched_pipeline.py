"""Define the built-in pipeline that asks a model in the batch lane.

A chunk asks several questions at once, then one that needs their answers. Beside them
it makes a direct call, and at the end an effect.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from piecework import Context, Pipeline, Stage
from piecework.llm import Lane, Model, ModelAnswer, ModelRequest, Price
from piecework.llm.batches.port import BatchProvider
from piecework_simulation.batch_provider import SimulatedBatches
from piecework_simulation.driver.limited_pipeline import gathered
from piecework_simulation.driver.pipelines import (
    QUICK,
    Item,
    book,
    model,
    score,
    shop,
    trouble,
    unbook,
)
from piecework_simulation.provider import CALL_TOKENS, FULL_NANO_USD

#: Dollars for a million tokens: a direct answer costs `FULL_NANO_USD`.
DOLLARS = FULL_NANO_USD / CALL_TOKENS / 1_000


@dataclass(frozen=True, slots=True)
class Answers:
    """Answers a question about a number, in any lane."""

    provider: str = "simulated"
    batches: BatchProvider = field(default_factory=SimulatedBatches)

    async def __call__(self, request: ModelRequest) -> ModelAnswer:
        """Answer a request."""
        return ModelAnswer(request.text, "stop", CALL_TOKENS // 2, CALL_TOKENS // 2)


polls = Model(
    "polls",
    Answers(),
    price=Price(input=DOLLARS, output=DOLLARS, tiers={"batch": 0.5}),
    lane=Lane.batch(within=1_200.0, at_least=2, gather=10.0),
    retry=QUICK,
    timeout=8.0,
    estimate=lambda *_: CALL_TOKENS,
)


async def survey(ctx: Context[Item]) -> str:
    """Ask all at once, make a direct call, then ask about the answers."""
    n, calls = ctx.payload.n, ctx.payload.calls
    asked = (polls.ask("Count.", f"{n}:{i}") for i in range(calls))
    counted, answers = await asyncio.gather(ctx.call(model, score, n), gathered(asked))
    trouble(ctx, "survey")
    if calls > 1:
        answers.append(await polls.ask("Sum up.", " ".join(answers)))
    return " ".join([*answers, str(counted)])


async def publish(ctx: Context[Item]) -> str:
    """Publish the report."""
    trouble(ctx, "publish")
    return await ctx.call(shop, book, "report", ctx.payload.n)


async def withdraw(ctx: Context[Item]) -> None:
    """Compensate the report."""
    await ctx.call(shop, unbook, "report", ctx.payload.n)


async def review(ctx: Context[Item]) -> str:
    """Ask one more question, about what was published."""
    trouble(ctx, "review")
    return await polls.ask("Review.", f"report {ctx.payload.n}")


surveying = Pipeline(
    "surveying",
    payload=Item,
    stages=[Stage(survey), Stage(publish, compensate=withdraw), Stage(review)],
)
