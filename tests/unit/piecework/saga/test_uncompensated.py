from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from piecework import Context, Dependency, Effect, PermanentError, Pipeline, Stage
from piecework.domain.outcome import CompensationResult, DeadLettered
from piecework.resilience.retry import RetryTime
from piecework.testing import run_in_memory
from tests.unit.piecework.fakes import caller

BANK = Dependency("bank", effect=Effect.PROVIDER_IDEMPOTENT)
MODEL = Dependency("model")


class Order(BaseModel):
    n: int = 1


async def pay(n: int, *, idempotency_key: str) -> int:
    del idempotency_key
    return n


async def charge(ctx: Context[Order]) -> int:
    return await ctx.call(BANK, pay, ctx.payload.n)


async def refund(ctx: Context[Order]) -> None:
    del ctx


async def think(ctx: Context[Order]) -> int:
    return await ctx.call(MODEL, pay, ctx.payload.n)


async def fail(ctx: Context[Order]) -> None:
    message = "no more"
    raise PermanentError(message, code="tool.stock.none")


@pytest.mark.parametrize(
    ("stages", "expected"),
    [
        ([Stage(charge), Stage(fail)], (CompensationResult.FAILED, ("charge",))),
        (
            [Stage(charge, compensate=refund), Stage(fail)],
            (CompensationResult.COMPENSATED, ()),
        ),
        ([Stage(think), Stage(fail)], (CompensationResult.NOT_NEEDED, ())),
        (
            [Stage(charge, compensate=refund), Stage(think), Stage(fail)],
            (CompensationResult.COMPENSATED, ()),
        ),
    ],
)
async def test_an_effect_without_a_compensation_is_named(
    stages: list[Stage], expected: tuple[Any, ...]
) -> None:
    pipeline = Pipeline("orders", payload=Order, stages=stages)
    run = await run_in_memory(pipeline, [Order()])
    outcome = run.outcomes[0]
    assert isinstance(outcome, DeadLettered)
    assert expected == (outcome.compensation, outcome.uncompensated_stages)


def test_compensation_has_its_own_retry_time() -> None:
    one = caller()
    one.attempts.retry_time = RetryTime(30.0, spent=30.0)
    one.start_compensating()
    assert RetryTime(30.0, spent=0.0) == one.attempts.retry_time
    assert not one.counts.forward
