"""Define the built-in pipelines whose stages map: jobs below jobs.

    branching -> spreading -> counting | travel | milling

A stage calls before it maps, so that a repeated stage replays the call, and it is after
an effect, so that a cancel may compensate a chunk that waits for its child.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Final

from pydantic import BaseModel

from piecework import Context, Pipeline, Stage
from piecework_simulation.driver.pipelines import (
    Item,
    cancel_flight,
    counting,
    flight,
    milling,
    model,
    score,
    travel,
)
from piecework_simulation.driver.simulated_pipeline import instrument_pipeline
from piecework_simulation.provider import InputFault

#: The share of the jobs of these pipelines whose rows run in children.
SHARE: Final = 0.3
#: The share of those that have a job between them and the children.
DEEP_SHARE: Final = 0.3
#: What the rows of a child run.
BELOW: Final[Mapping[str, Pipeline]] = {
    each.name: instrument_pipeline(each) for each in (counting, travel, milling)
}
#: The first argument of the calls beside a map: no other stage uses it.
APART: Final = 1_000_000


class Batch(Item):
    """A chunk whose stage maps rows.

    Attributes:
        below: The pipeline of the rows.
    """

    rows: list[Item]
    below: str


class Twig(Item):
    """A chunk whose stage maps one chunk that maps."""

    batch: Batch


async def spread(ctx: Context[Batch]) -> list[int]:
    """Pay for a call, map the rows, and return those with a result, and without."""
    batch = ctx.payload
    await ctx.call(model, score, APART + batch.n)
    found = await ctx.map(BELOW[batch.below], batch.rows)
    done = [each.row async for each in found]
    failed = [each.row async for each in found.failures()]
    if sorted(done + failed) != list(range(len(batch.rows))):
        message = f"rows {done} and {failed} of {len(batch.rows)}"
        raise AssertionError(message)
    return [*done, -1, *failed]


spreading = instrument_pipeline(
    Pipeline(
        "spreading",
        payload=Batch,
        stages=[Stage(flight, compensate=cancel_flight), Stage(spread)],
    )
)


async def branch(ctx: Context[Twig]) -> int:
    """Map one chunk that maps."""
    found = await ctx.map(spreading, [ctx.payload.batch])
    return found.succeeded


branching = instrument_pipeline(
    Pipeline("branching", payload=Twig, stages=[Stage(branch)])
)
#: All pipelines of jobs with children.
MAPPING: Final = {each.name: each for each in (spreading, branching)}


def in_children(
    pipeline: Pipeline, payloads: Sequence[BaseModel], rng: Random
) -> tuple[Pipeline, list[BaseModel]]:
    """Return the same chunks as rows of children, or the chunks as they are."""
    if pipeline.name not in BELOW or rng.random() >= SHARE:
        return pipeline, list(payloads)
    rows = [row for row in payloads if isinstance(row, Item)]
    cut = rng.randint(0, len(rows))
    parts = [part for part in (rows[:cut], rows[cut:]) if part]
    batches = [
        Batch(n=number, rows=part, below=pipeline.name)
        for number, part in enumerate(parts)
    ]
    if rng.random() >= DEEP_SHARE:
        return spreading, list(batches)
    return branching, [Twig(n=each.n, batch=each) for each in batches]


def moved(fault: InputFault, pipeline: Pipeline) -> InputFault:
    """Return the fault of an input at the last stage of a pipeline that maps."""
    return replace(fault, stage=pipeline.stages[-1].name)
