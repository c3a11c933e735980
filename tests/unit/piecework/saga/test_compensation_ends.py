"""A compensation ends even if its dependency never answers."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest

from piecework.domain.outcome import (
    MAX_BUDGET_DEFERRALS,
    CompensationResult,
    DeadLettered,
    Deferred,
    Retry,
)
from piecework.errors import PermanentError, TransientError
from piecework.resilience.retry import RetryTokenBucket
from tests.unit.piecework.fakes import caller, checkpoints_of, context, run
from tests.unit.piecework.script import BANK, Script


async def release(*, idempotency_key: str) -> None:
    raise TransientError(f"down, {idempotency_key}")


async def undo(ctx: Any) -> None:
    await ctx.call(BANK, release)


@pytest.mark.parametrize("more", [0, 1])
async def test_other_deferrals_spend_none_of_those_for_the_retry_budget(
    more: int,
) -> None:
    script = Script(fails={"b": undo})
    one = caller(retry_tokens=defaultdict(lambda: RetryTokenBucket(0.0)))
    one.counts.deferrals = 1_000
    one.counts.budget_deferrals = MAX_BUDGET_DEFERRALS - 1 + more
    outcome = await run(script.pipeline, ctx=context(script.pipeline, caller=one))
    assert isinstance(outcome, Retry if more else Deferred)


async def test_the_deferrals_of_a_compensation_are_bounded() -> None:
    script = Script(undoable="a", fails={"b": PermanentError("no"), "undo a": undo})
    kept, outcomes = checkpoints_of(script.pipeline), []
    for deferrals in range(MAX_BUDGET_DEFERRALS + 1):
        one = caller(retry_tokens=defaultdict(lambda: RetryTokenBucket(0.0)))
        one.counts.budget_deferrals = deferrals
        ctx = context(script.pipeline, caller=one)
        outcomes.append(await run(script.pipeline, kept, ctx=ctx))
    *waited, last = outcomes
    assert {"bank"} == {w.blocked_on for w in waited if isinstance(w, Deferred)}
    assert MAX_BUDGET_DEFERRALS == len([w for w in waited if isinstance(w, Deferred)])
    assert isinstance(last, DeadLettered)
    assert (CompensationResult.FAILED, ("a",)) == (
        last.compensation,
        last.uncompensated_stages,
    )
