"""A compensation in a child process asks what its stage has done."""

from __future__ import annotations

import math
from typing import Any

import pytest

from piecework import (
    Context,
    Dependency,
    Effect,
    Happened,
    MayHaveHappened,
    NotHappened,
)
from piecework.domain import keys
from piecework.domain.happened import EffectEnd, KnownEffect
from piecework.domain.identity import function_text
from piecework.pipelines import COMPENSATE, Pipeline, Stage
from piecework_worker.isolation.messages import MESSAGE
from piecework_worker.isolation.pool import Isolation
from piecework_worker.isolation.session import Session
from tests.unit.piecework.fakes import Clause, Log, context
from tests.unit.workers.isolation.both_ends import child_of

bank = Dependency("bank", effect=Effect.PROVIDER_IDEMPOTENT)
found: list[Any] = []


@bank.call
async def charge(cents: int, *, idempotency_key: str = "") -> list[int]:
    """Charge."""
    del idempotency_key
    return [cents]


async def pay(_: Context[Clause]) -> None:
    """Pay."""


def refund(ctx: Context[Clause]) -> None:
    """Ask, in a thread."""
    found.append(ctx.happened(charge))


PIPELINE = Pipeline(
    "paying", payload=Clause, stages=[Stage(pay, compensate=refund, isolate=True)]
)


@pytest.mark.parametrize(
    ("end", "answer", "told"),
    [
        (EffectEnd.HAPPENED, "[5]", Happened([5])),
        (EffectEnd.IN_DOUBT, None, MayHaveHappened()),
        (EffectEnd.NOT_HAPPENED, None, NotHappened()),
    ],
)
async def test_the_child_knows_what_the_ledger_knows(
    end: EffectEnd, answer: str | None, told: Any
) -> None:
    found.clear()
    (stage,) = PIPELINE.stages
    text = function_text(charge.function)
    effects = [KnownEffect("pay", text, "5ff", end, answer)]
    scope = keys.compensation_stage("pay", 1)
    ctx = context(PIPELINE, stage=scope, effects=effects)
    place = Isolation([], "w", 0, Log())  # type: ignore[arg-type]
    request = place.request(stage, ctx, COMPENSATE)

    sent = MESSAGE.validate_json(MESSAGE.dump_json(request))
    assert request == sent
    async with child_of(PIPELINE) as child:
        await Session(child, ctx, math.inf).run(request)  # type: ignore[arg-type]

    assert [told] == found
