"""Define the work of both designs: review a clause, and write a comment.

One call classifies the clause, three analysts run concurrently, and a comment is
written to the customer's document, exactly once. This is the source's pipeline.
"""

from __future__ import annotations

import asyncio

from pydantic import BaseModel

from piecework import Context, Dependency, Effect, Pipeline, RetryPolicy, Stage
from piecework_simulation.driver.simulated_pipeline import instrument_pipeline

#: As in the source: three attempts, 1, 2 and 4 s apart.
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
    """Replace the document's search, which the simulator answers."""
    del idempotency_key


# Without breakers, like the other design: a permanent failure would be waited for.
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
    """Classify the clause."""
    return await ctx.call(model, score, "kind", ctx.payload.n)


async def analyse(ctx: Context[Clause]) -> list[str]:
    """Call the analysts concurrently."""
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
