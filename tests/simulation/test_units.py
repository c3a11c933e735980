"""What the work on a chunk costs: DynamoDB's write units, and its write requests.

The figures are those of a chunk: a job of 60 less one of 20, submit included. The model
of AWS knows the size of each item, so the units are by AWS's rules.
"""

from __future__ import annotations

import asyncio
import random
import re
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pydantic import BaseModel

from piecework import Context, Dependency, Effect, Pipeline, Stage
from piecework.cost.units import TRANSACTION, item_size, write_units
from piecework_simulation.aws.dynamodb import Change
from piecework_simulation.engine.network import Exchange
from tests.unit.orchestrator.simulated import Simulated, simulate

FEW, MANY = 20, 60
PAGE = Path(__file__).parents[2] / "docs/protocol.md"
#: The words of a page, as a model might use them.
WORDS = sorted(set(re.findall("[A-Za-z]+", PAGE.read_text())))
#: Seconds of a call: longer than the journal waits for the next one.
CALL_S = 0.3


class Row(BaseModel):
    """A chunk."""

    n: int


def prose(seed: object, size: int) -> str:
    """Return a text of words, as a model answers."""
    rng, text = random.Random(str(seed)), ""
    while len(text) < size:
        text += rng.choice(WORDS) + " "
    return text[:size]


async def answer(n: int, step: int, size: int) -> str:
    """Answer after a while with a text of this size."""
    await asyncio.sleep(CALL_S)
    return prose((n, step), size)


plain = Dependency("plain")
shop = Dependency("shop", effect=Effect.PROVIDER_IDEMPOTENT)


async def act(n: int, step: int, *, idempotency_key: str) -> str:
    """Change something."""
    del idempotency_key
    await asyncio.sleep(CALL_S)
    return f"{n}-{step}"


def stages(*sizes: int) -> Pipeline:
    """Return a pipeline of stages that return texts of these sizes."""

    async def text(ctx: Context[Row], size: int, step: int) -> str:
        return prose((ctx.payload.n, step), size)

    made = [
        Stage(partial(text, size=size, step=step), name=f"stage{step}")
        for step, size in enumerate(sizes)
    ]
    return Pipeline("texts", payload=Row, stages=made)


def effects(count: int) -> Pipeline:
    """Return a pipeline with so many effects in turn."""

    async def work(ctx: Context[Row]) -> int:
        n = ctx.payload.n
        return len([await ctx.call(shop, act, n, step) for step in range(count)])

    return Pipeline("effects", payload=Row, stages=[Stage(work)])


def calls(count: int, size: int) -> Pipeline:
    """Return a pipeline with so many calls in turn."""

    async def work(ctx: Context[Row]) -> int:
        n = ctx.payload.n
        return len([await ctx.call(plain, answer, n, s, size) for s in range(count)])

    return Pipeline("calls", payload=Row, stages=[Stage(work)])


class Cost(NamedTuple):
    """Write units, and write requests to DynamoDB."""

    units: float
    requests: float


def cost_of(pipeline: Pipeline, chunks: int) -> Cost:
    """Return what a job costs."""
    units = requests = 0.0

    async def life(at: Simulated) -> None:
        nonlocal units, requests
        changes: list[Change] = []
        model = at.world.dynamodb
        model.on_write = changes.extend

        def note(when: str, exchange: Exchange) -> None:
            nonlocal units, requests
            if when != "applied" or exchange.client.service is not model:
                return
            requests += exchange.operation not in {"get_item", "query", "scan"}
            found = sum(write_units(change.size) for change in changes)
            changes.clear()
            if "TransactItems" in exchange.request:
                actions = exchange.request["TransactItems"]
                checks = [a["ConditionCheck"] for a in actions if "ConditionCheck" in a]
                found += sum(write_units(size_of(model, check)) for check in checks)
                found *= TRANSACTION
            units += found

        at.world.on_exchange = note
        await at.submit(pipeline, [Row(n=n) for n in range(chunks)])
        await at.ended()

    simulate(life, [pipeline])
    return Cost(units, requests)


def size_of(model: Any, request: Mapping[str, Any]) -> int:
    """Return the size of the item that a request names."""
    place = {"TableName": request["TableName"], "Key": request["Key"]}
    reply = model.call("get_item", {**place, "ConsistentRead": True})
    return item_size(reply.get("Item", {}))


def cost_of_chunk(pipeline: Pipeline) -> Cost:
    """Return what a further chunk costs."""
    few, many = cost_of(pipeline, FEW), cost_of(pipeline, MANY)
    more = MANY - FEW
    return Cost((many.units - few.units) / more, (many.requests - few.requests) / more)


#: What a chunk does, and the most write units and write requests that it may cost.
CASES: Sequence[tuple[str, Pipeline, float, float]] = [
    ("one stage", stages(20), 3.3, 2.4),
    ("three stages of 20 B", stages(20, 20, 20), 5.5, 4.4),
    ("three stages of 600 B", stages(600, 600, 600), 8.5, 6.5),
    ("three stages of 3 KB", stages(3_000, 3_000, 3_000), 16.5, 6.5),
    ("a result of 3 KB", stages(3_000), 6.5, 2.4),
    ("a result of 7 KB", stages(7_000), 10.5, 2.4),
    ("five effects", effects(5), 29.0, 13.0),
    ("20 calls of 200 B", calls(20, 200), 23.2, 22.2),
    ("20 calls of 2 KB", calls(20, 2_000), 42.2, 22.2),
]


@pytest.mark.parametrize(
    ("pipeline", "units", "requests"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_a_chunk_costs_no_more(
    pipeline: Pipeline, units: float, requests: float
) -> None:
    found = cost_of_chunk(pipeline)

    assert found.units <= units
    assert found.requests <= requests


if __name__ == "__main__":
    for name, pipeline, *_ in CASES:
        found = cost_of_chunk(pipeline)
        figures = f"{found.units:6.2f} units {found.requests:6.2f} write requests"
        sys.stdout.write(f"{name:24} {figures}\n")
