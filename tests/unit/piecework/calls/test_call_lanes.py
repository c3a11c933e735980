"""Guarantee: a call without room in its lane waits for nothing, then goes direct."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from piecework.dependency import TAKEN, Dependency
from piecework.domain.effect import Effect
from piecework.errors import TransientError, UsageError
from piecework.errors.classify import envelope_of
from piecework.resilience.breaker import CircuitBreaker, Health
from piecework.resilience.lanes import NO_ROOM_CODE, Lane
from piecework.resilience.retry import RetryPolicy, blocked_on
from tests.unit.piecework.fakes import Diary, Log, caller
from tests.unit.piecework.provider import PURE, Provider, call
from tests.unit.virtual import run_virtually

FLEX = Dependency(
    "mini", layer="llm", retry=RetryPolicy(attempts=3), lane=Lane.flex(within="1h")
)


class Busy(Provider):
    """A provider whose flex tier has no room until a moment; it keeps the tiers."""

    def __init__(self, free_at: float = 1e9) -> None:
        super().__init__()
        self.now, self.free_at = 0.0, free_at
        self.tiers: list[str] = []

    async def answer_once(self, *args: Any, **kwargs: Any) -> Any:
        taken = TAKEN.get()
        assert taken is not None
        self.tiers.append(taken.tier)
        if taken.tier and self.now < self.free_at:
            raise TransientError("full", code=NO_ROOM_CODE, dependency="mini")
        return await super().answer_once(*args, **kwargs)


async def waits(provider: Busy, diary: Diary, at: float, **facts: Any) -> float | None:
    """Call at a time, as a new claim; return the seconds to wait; None: answered."""
    provider.now = at
    claim = caller(diary, clock=lambda: at, **facts)
    claim.goes_direct = facts.get("goes_direct", False)
    try:
        assert await call(claim, FLEX, provider, "a") == "answer"
    except TransientError as error:
        failure = envelope_of(error)
        assert (failure.code, blocked_on(failure)) == (NO_ROOM_CODE, "mini")
        assert (claim.counts.failed, claim.counts.retried) == (0, 0)
        return failure.retry_after
    return None


async def test_later_claims_ask_for_room_until_the_call_goes_direct() -> None:
    provider, diary, log = Busy(), Diary(), Log()
    found = [await waits(provider, diary, at) for at in (0.0, 20.0, 1000.0, 3599.0)]
    assert found == [15.0, 20.0, 300.0, 1.0]
    assert await waits(provider, diary, 3600.0, log=log) is None
    # One request a claim: the lane has no room for a retry in the worker.
    assert provider.tiers == ["flex"] * 4 + [""]
    (left,) = [fields for event, fields in log.said if event == "call.lane_left"]
    assert left == {"dependency": "mini", "waited_s": 3600}


async def test_a_call_that_finds_room_again_is_answered_in_its_lane() -> None:
    provider, diary = Busy(free_at=100.0), Diary()
    assert await waits(provider, diary, 0.0) == 15.0
    assert await waits(provider, diary, 100.0) is None
    assert provider.tiers == ["flex", "flex"]
    # Its answer is remembered as that of any call.
    assert await waits(provider, diary, 200.0) is None
    assert len(provider.tiers) == 2


async def test_a_redrive_waits_anew() -> None:
    provider, diary = Busy(), Diary()
    await waits(provider, diary, 0.0)
    assert await waits(provider, diary, 9000.0, gen=2) == 15.0


async def test_a_job_that_goes_direct_asks_no_cheaper_tier() -> None:
    provider, claim = Busy(), caller()
    claim.goes_direct = True
    assert await call(claim, FLEX, provider, "a") == "answer"
    assert await call(claim, PURE, provider, "a") == "answer"
    assert provider.tiers == ["", ""]


def test_an_attempt_in_a_lane_has_the_time_of_its_lane() -> None:
    slow = Provider()

    async def takes(seconds: float, dependency: Dependency) -> Any:
        async def answer_late(**_: Any) -> str:
            await asyncio.sleep(seconds)
            return "answer"

        slow.answer_once = answer_late  # type: ignore[method-assign]
        return await call(caller(), dependency, slow)

    async def main() -> None:
        assert await takes(899.0, FLEX) == "answer"
        with pytest.raises(TimeoutError):
            await takes(901.0, FLEX)

    run_virtually(main())


def test_a_full_lane_says_nothing_about_the_health_of_its_provider() -> None:
    failure = envelope_of(TransientError("full", code=NO_ROOM_CODE))
    assert CircuitBreaker().health(failure) is Health.REACHABLE


def test_a_call_that_must_not_be_repeated_has_no_lane() -> None:
    with pytest.raises(UsageError, match=r"a lane and Effect\.NON_IDEMPOTENT exclude"):
        Dependency("fax", effect=Effect.NON_IDEMPOTENT, lane=Lane.flex())
    with pytest.raises(UsageError, match=r"write Lane\.direct\(\), Lane\.flex"):
        Dependency("mini", lane="flex")  # type: ignore[arg-type]
