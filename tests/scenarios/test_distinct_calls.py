"""Guarantee: two calls that differ are two calls; what is stored is what was sent."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import pytest
from pydantic import BaseModel, Field, SecretStr

from piecework import (
    Context,
    Dependency,
    Effect,
    Pipeline,
    Results,
    Stage,
    TransientError,
)
from piecework.domain.states import JobStatus
from tests.scenarios import conftest
from tests.scenarios.conftest import Scenario
from tests.scenarios.pipelines import QUICK, Item, note

bank = Dependency("bank", retry=QUICK, effect=Effect.PROVIDER_IDEMPOTENT)


class Cat(BaseModel):
    """A model with a field that is not written."""

    name: str
    hidden: str = Field("", exclude=True)


class Dog(BaseModel):
    """A model with the same fields."""

    name: str
    hidden: str = Field("", exclude=True)


class Orders:
    """Orders."""

    @staticmethod
    async def create(cents: int, *, idempotency_key: str) -> str:
        """Create an order."""
        note("order", idempotency_key)
        return f"order {cents}"


class Refunds:
    """Refunds."""

    @staticmethod
    async def create(cents: int, *, idempotency_key: str) -> str:
        """Create a refund."""
        note("refund", idempotency_key)
        return f"refund {cents}"


class Account:
    """A client with an account of its own."""

    async def pay(self, cents: int, *, idempotency_key: str) -> int:
        """Pay."""
        note("paid", idempotency_key)
        return cents


ALIKE: tuple[Any, ...] = (
    *(SecretStr("4111"), SecretStr("4242"), {1: "a"}, {"1": "a"}),
    *(Decimal(1), "1", b"1", dt.date(2026, 1, 31), "2026-01-31"),
    *(Cat(name="a"), Dog(name="a"), Cat(name="a", hidden="b"), "\x00\u0301"),
)
TRIED: list[int] = []


async def send(value: Any, *, idempotency_key: str) -> str:
    """Send a value."""
    note("sent", idempotency_key)
    return type(value).__name__


async def grow(order: dict[str, int], *, idempotency_key: str) -> int:
    """Change the order, and fail on the first attempt."""
    order["cents"] += 5
    note("grown", order["cents"])
    TRIED.append(order["cents"])
    if len(TRIED) == 1:
        raise TransientError("not now", code="tool.stock.busy", retry_after=0.0)
    return order["cents"]


class Measured(Item):
    """A chunk with numbers that JSON does not have."""

    mean: float | None = math.nan
    most: Any = math.inf


async def work(ctx: Context[Measured]) -> Any:
    """Make the calls that the payload names."""
    match ctx.payload.n:
        case 0:
            made = [await ctx.call(bank, send, value) for value in ALIKE]
            kinds = Orders.create, Refunds.create
            return [*made, *[await ctx.call(bank, kind, 100) for kind in kinds]]
        case 1:
            return await ctx.call(bank, grow, {"cents": 100})
        case 2:
            return [ctx.payload.mean, {"most": ctx.payload.most}, None]
        case _:
            return await ctx.call(bank, Account().pay, 100)


async def average(ctx: Context[Measured]) -> float:
    """Return a number that is not finite."""
    ctx.result(work)
    return math.nan


async def read(ctx: Results) -> None:
    """Note the results."""
    async for result in ctx:
        note("result", result.chunk, repr(result.value).replace(" ", ""))


distinct = Pipeline(
    name="distinct",
    payload=Measured,
    stages=[Stage(work), Stage(average)],
    result=work,
    join=read,
)


async def test_calls_that_differ_are_all_made_and_values_stay_what_they_are(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(conftest.ALL, distinct.name, distinct)
    TRIED.clear()
    async with scenario.worker():
        await scenario.submit(distinct, [Measured(n=n) for n in range(4)])
        job = await scenario.ended()
    assert job.status is JobStatus.PARTIAL
    assert len(ALIKE) == scenario.happened("sent")
    assert (1, 1) == (scenario.happened("order"), scenario.happened("refund"))
    assert ["105", "105"] == [row[1] for row in scenario.ledger if row[0] == "grown"]
    assert scenario.happened("result", "2", "[nan,{'most':inf},None]")
    (letter,) = await scenario.letter_rows()
    assert "pipeline.call.indistinct" == letter.error_code
    assert not scenario.happened("paid")
