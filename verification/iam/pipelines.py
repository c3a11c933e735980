"""A pipeline that leaves something in every place where one can."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from piecework import (
    Context,
    Dependency,
    Effect,
    Escalation,
    Ladder,
    Pipeline,
    Results,
    Rung,
    Stage,
)
from piecework.aws.objects import INLINE_LIMIT
from piecework.errors import PermanentError, TransientError
from tests.scenarios import pipelines as scenarios
from tests.scenarios.pipelines import QUICK, Item, note

#: Too large for a row.
LARGE = "x" * (INLINE_LIMIT + 1)
model = Dependency("large-model", retry=QUICK)
shop = replace(scenarios.shop, name="large-shop", effect=Effect.PROVIDER_IDEMPOTENT)


async def answer(n: int, *, idempotency_key: str) -> str:
    """Answer at length."""
    note("answered", n)
    return LARGE


async def read(ctx: Context[Item]) -> str:
    """Return a large value."""
    return LARGE


async def ask(ctx: Context[Item]) -> int:
    """Ask a model and a shop, at length; fail once, so that both are read again."""
    told = [await ctx.call(model, answer, 1), await ctx.call(shop, answer, 2)]
    once("chunk")
    return len(ctx.result(read)) + sum(map(len, told))


async def unask(ctx: Context[Item]) -> None:
    """Have nothing to give back."""


async def refuse(ctx: Context[Item]) -> str:
    """Fail for good, where the payload says so; return something large."""
    if ctx.payload.trouble:
        raise PermanentError("refused", code="tool.stock.none")
    return LARGE


async def add_up(ctx: Results) -> int:
    """Read every result, write an artifact, and fail once."""
    found = 0
    async for result in ctx:
        found += len(result.value)
    await ctx.write("total.txt", str(found))
    once("join")
    return found


async def open_ticket(reached: Escalation) -> None:
    """Have no system of tickets."""


def once(what: str) -> None:
    """Fail the first time."""
    here = Path(f"{os.environ['SCENARIO_LEDGER']}.{what}")
    if not here.exists():
        here.touch()
        raise TransientError("not now", code="tool.stock.busy", retry_after=0.0)


large = Pipeline(
    name="large",
    payload=Item,
    stages=[Stage(read), Stage(ask, compensate=unask), Stage(refuse)],
    join=add_up,
    ladder=Ladder(rungs=[Rung("alert"), Rung("ticket", open_ticket)]),
)


async def ask_a_person(ctx: Context[Item]) -> bool:
    """Ask for longer than a message waits, so that the index of waits is used."""
    answer = await ctx.wait_for("approval", ask="Go on?", timeout=3600)
    return answer.approved


asking = Pipeline(name="asking", payload=Item, stages=[Stage(ask_a_person)])
