"""What both designs are given to do: review a clause, and write down what was found.

One call to classify it, three analysts side by side, and a comment in the customer's
document, which must appear there once. As the source's pipeline, with fewer calls.
"""

from __future__ import annotations

import asyncio

from pydantic import BaseModel

from piecework import Context, Dependency, Effect, Pipeline, RetryPolicy, Stage
from simulation.watched import instrument_pipeline

#: As the source has them: three tries, 1, 2 and 4 s apart.
TIER_ONE = RetryPolicy(attempts=3, base=1.0, cap=4.0)
CHUNKS = 22
ANALYSTS = 3


class Clause(BaseModel):
    """A chunk."""

    n: int


async def score(what: str, n: int, *, idempotency_key: str) -> str:
    """Be a paid model call."""
    del idempotency_key
    return f"{what}-{n}"


async def comment(n: int, *, idempotency_key: str) -> str:
    """Put a comment into the document."""
    del idempotency_key
    return f"comment-{n}"


async def comment_of(*_: object, idempotency_key: str) -> None:
    """Stand in for the document's search, which the simulator answers."""
    del idempotency_key


# Without breakers, as the other design: what never works would be waited for.
model = Dependency("model", retry=TIER_ONE, timeout=8.0, breaker=None)
document = Dependency(
    "document",
    retry=TIER_ONE,
    timeout=8.0,
    effect=Effect.LOOKUP,
    lookup=comment_of,
    breaker=None,
)


async def classify(ctx: Context[Clause]) -> str:
    """Say of what kind the clause is."""
    return await ctx.call(model, score, "kind", ctx.payload.n)


async def analyse(ctx: Context[Clause]) -> list[str]:
    """Ask the analysts, side by side."""
    n = ctx.payload.n
    asked = (ctx.call(model, score, f"analyst-{i}", n) for i in range(ANALYSTS))
    return list(await asyncio.gather(*asked))


async def deliver(ctx: Context[Clause]) -> str:
    """Write the findings into the document."""
    return await ctx.call(document, comment, ctx.payload.n)


REVIEW = instrument_pipeline(
    Pipeline(
        "review",
        payload=Clause,
        stages=[Stage(classify), Stage(analyse), Stage(deliver)],
    )
)
