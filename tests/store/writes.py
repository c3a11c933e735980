"""Every write of a claim's holder, as one call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from piecework.domain import keys
from piecework.domain.claim import Claim
from piecework.domain.effect import Effect
from piecework.domain.outcome import (
    Cancelled,
    CompensationResult,
    DeadLettered,
    Deferred,
    Paused,
    Released,
    Retry,
)
from piecework.errors.codes import ErrorClass
from piecework.resilience.breaker import OPEN_CODE
from piecework.store.settlements import Calls
from tests.store.conftest import Store
from tests.unit.piecework.fakes import envelope

FAILURE = envelope(stage="second", code="llm.content.filtered")
REFUSED = envelope(
    ErrorClass.TRANSIENT, stage="second", code=OPEN_CODE, dependency="model"
)
DEAD = DeadLettered(FAILURE, CompensationResult.COMPENSATED, ("first",))
CANCELLED = Cancelled("second", CompensationResult.COMPENSATED)
Write = Callable[[Store, Claim], Awaitable[Any]]


async def complete_null(store: Store, claim: Claim) -> Any:
    return await store.checkpoints(claim).complete(0, "null", "second")


async def complete_value(store: Store, claim: Claim) -> Any:
    return await store.checkpoints(claim).complete(0, '"value"', "second")


async def complete_long(store: Store, claim: Claim) -> Any:
    return await store.checkpoints(claim).complete(0, f'"{"x" * 900}"', "second")


async def complete_paid(store: Store, claim: Claim) -> Any:
    """Complete a stage whose calls the journal does not have."""
    checkpoints = store.checkpoints(claim)
    checkpoints.ledger.usage.pure.add("paid", "m", [2, 90])
    checkpoints.ledger.usage.noted = 2
    return await checkpoints.complete(0, "null", "second")


async def begin_compensation(store: Store, claim: Claim) -> Any:
    return await store.checkpoints(claim).begin_compensation(FAILURE, "second")


async def record_compensation(store: Store, claim: Claim) -> Any:
    return await store.checkpoints(claim).record_compensation("first", None)


async def record_failed_compensation(store: Store, claim: Claim) -> Any:
    return await store.checkpoints(claim).record_compensation("first", FAILURE)


async def begin(store: Store, claim: Claim) -> Any:
    effect = Effect.PROVIDER_IDEMPOTENT
    return await store.ledger(claim).begin("key", "first", effect, 9.0)


async def succeed(store: Store, claim: Claim) -> Any:
    also = [await store.checkpoints(claim).result_put('"last"')]
    ends, result = store.settlements, {"result_sha256": "ab"}
    return await ends.succeed(claim, result=result, also=also, calls=Calls(5))


async def succeed_with_value(store: Store, claim: Claim) -> Any:
    ends = store.settlements
    result = {"result_sha256": "ab", "value": '"last"'}
    return await ends.succeed(claim, result=result, calls=Calls(5))


async def succeed_alone(store: Store, claim: Claim) -> Any:
    ends = store.settlements
    return await ends.succeed(claim, result={"result_sha256": "ab"}, calls=Calls(5))


async def schedule_retry(store: Store, claim: Claim) -> Any:
    retry = Retry(FAILURE, 30.0)
    return await store.settlements.schedule_retry(claim, retry, calls=Calls(5))


async def defer(store: Store, claim: Claim) -> Any:
    deferred = Deferred(REFUSED, 30.0, REFUSED.dependency)
    return await store.settlements.defer(claim, deferred, calls=Calls(5))


async def release(store: Store, claim: Claim) -> Any:
    return await store.settlements.release(claim, Released(), calls=Calls(5))


async def pause(store: Store, claim: Claim) -> Any:
    paused = Paused(pivot_untried=True)
    return await store.settlements.pause(claim, paused, calls=Calls(5))


async def dead_letter(store: Store, claim: Claim) -> Any:
    dead_letter = store.dead_letters.row(claim, DEAD, [], pipeline="review", owner="")
    return await store.settlements.dead_letter(
        claim, DEAD, dead_letter, resume_at="first", also=[], calls=Calls(5)
    )


async def cancel(store: Store, claim: Claim) -> Any:
    return await store.settlements.cancel(
        claim, CANCELLED, resume_at="first", calls=Calls(5)
    )


STEPS: list[Write] = [
    complete_null,
    complete_value,
    complete_paid,
    begin_compensation,
    record_compensation,
    record_failed_compensation,
    begin,
]
ENDS: list[Write] = [
    succeed,
    succeed_with_value,
    succeed_alone,
    schedule_retry,
    defer,
    pause,
    release,
    dead_letter,
    cancel,
]


def named(writes: list[Write]) -> Any:
    return pytest.mark.parametrize("write", writes, ids=lambda w: w.__name__)


async def rows(store: Store) -> dict[str, dict[str, Any]]:
    prefix = keys.work_prefix(3)
    found = store.table.query(store.chunk.pk, prefix)
    return {item["sk"].removeprefix(prefix): item async for item in found}
