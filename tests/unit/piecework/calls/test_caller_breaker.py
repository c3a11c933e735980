"""Calls that the breaker or the fleet's retry budget refuses."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from piecework.calls.caller import Caller
from piecework.calls.fleet_breaker import BreakerRegistry
from piecework.calls.fleet_limits import FleetLimits
from piecework.dependency import Dependency
from piecework.domain.effect import Effect
from piecework.domain.identity import named_call
from piecework.domain.protocols import ClaimLostError
from piecework.errors import PermanentError, TransientError
from piecework.resilience.breaker import (
    OPEN_CODE,
    BreakerPhase,
    CircuitBreaker,
    Health,
    Permit,
)
from piecework.resilience.retry import BUDGET_CODE, RetryPolicy, RetryTokenBucket
from tests.unit.piecework.fakes import Diary, Log, caller
from tests.unit.piecework.provider import KEYED, ONCE, PURE, Provider, call

SOON = CircuitBreaker(minimum_calls=2, window_calls=4, open_s=30.0)
MODEL = replace(PURE, breaker=SOON, retry=RetryPolicy(attempts=5))
BANK = replace(KEYED, breaker=SOON, retry=RetryPolicy(attempts=5))
FAX = replace(ONCE, breaker=SOON)


class Time:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def guarded(
    diary: Diary | None = None,
    *,
    broken: Dependency | None = None,
    failing: Dependency | None = None,
    **facts: Any,
) -> tuple[Caller, BreakerRegistry, Time]:
    """Return a caller with breakers; that of `broken` is open for 30 s.

    A call of another chunk to `failing` has failed.
    """
    clock = Time()
    breakers = BreakerRegistry(clock, Random(1), Log())
    one = caller(diary, breakers=breakers, clock=clock, **facts)
    if broken is not None:
        known = breakers.get(broken.name, SOON)
        known.state.open(clock.now + 30.0)
    if failing is not None:
        state = breakers.get(failing.name, SOON).state
        state.record_end(Permit(0), Health.FAILURE, clock.now, "another chunk")
    return one, breakers, clock


def attempts(log: Log) -> list[tuple[Any, ...]]:
    names = ("outcome", "error_code", "attempt_number", "delay_ms")
    return [
        tuple(fields[name] for name in names)
        for event, fields in log.said
        if event == "call.attempt"
    ]


async def failed(one: Caller, dependency: Dependency, provider: Provider) -> Any:
    with pytest.raises((TransientError, PermanentError)) as raised:
        await call(one, dependency, provider)
    return raised.value


async def test_the_breaker_is_checked_before_each_call() -> None:
    one, _, clock = guarded(broken=MODEL)
    provider = Provider()
    error = await failed(one, MODEL, provider)
    assert (OPEN_CODE, 30.0) == (error.code, error.retry_after)
    assert [] == provider.keys
    clock.now += 30.0
    assert "answer" == await call(one, MODEL, provider)


async def test_retries_end_as_soon_as_the_breaker_opens() -> None:
    one, breakers, _ = guarded(failing=MODEL)
    provider = Provider(*[TransientError("down", code="own.bank.down")] * 5)
    error = await failed(one, MODEL, provider)
    assert OPEN_CODE == error.code
    assert "own.bank.down" in str(error)
    assert 1 == len(provider.keys)
    assert BreakerPhase.OPEN is breakers.by_name["model"].state.phase


async def test_the_failures_of_one_chunk_open_no_breaker() -> None:
    one, breakers, _ = guarded(retry_tokens=defaultdict(lambda: RetryTokenBucket(1e9)))
    for n in range(20):
        down = Provider(*[TransientError("down")] * 5)
        with pytest.raises(TransientError):
            await call(one, MODEL, down, n)
        assert 5 == len(down.keys)
    assert BreakerPhase.CLOSED is breakers.by_name["model"].state.phase


async def test_the_failed_probe_of_a_claim_is_kept_for_its_end() -> None:
    one, _, clock = guarded(broken=MODEL)
    assert OPEN_CODE == (await failed(one, MODEL, Provider())).code
    assert one.counts.probe_failure is None
    clock.now += 30.0
    down = Provider(TransientError("down", code="own.bank.down"))
    assert OPEN_CODE == (await failed(one, MODEL, down)).code
    assert one.counts.probe_failure is not None
    assert "own.bank.down" == one.counts.probe_failure.code


async def test_a_breaker_that_opens_during_a_wait_ends_the_retries() -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        breakers.by_name["model"].state.open(clock.now + 12.0)

    one, breakers, clock = guarded(sleep=sleep)
    provider = Provider(TransientError("down"))
    error = await failed(one, MODEL, provider)
    assert (OPEN_CODE, 12.0) == (error.code, error.retry_after)
    assert (1, 1) == (len(provider.keys), len(slept))


async def test_an_effect_refused_before_its_first_attempt_was_not_made() -> None:
    diary = Diary()
    one, _, clock = guarded(diary, broken=BANK)
    await failed(one, BANK, Provider())
    assert ["begin", "not sent"] == diary.said
    assert set() == diary.stages_with_effects()
    clock.now += 30.0
    assert "answer" == await call(one, BANK, Provider())


async def test_an_effect_with_an_earlier_attempt_in_doubt_stays_in_doubt() -> None:
    diary = Diary()
    one, _, _ = guarded(diary, failing=BANK)
    provider = Provider(TimeoutError())
    assert OPEN_CODE == (await failed(one, BANK, provider)).code
    assert ["begin"] == diary.said
    assert {"analyse"} == diary.stages_with_effects()


async def test_an_effect_that_can_not_be_repeated_is_refused_or_unknown() -> None:
    diary = Diary()
    one, breakers, clock = guarded(diary, broken=FAX)
    assert OPEN_CODE == (await failed(one, FAX, Provider())).code
    assert ["begin", "not sent"] == diary.said
    breakers.by_name["fax"].state.close()
    known = breakers.by_name["fax"].state
    known.window.add(clock.now, SOON, "another chunk")
    error = await failed(one, FAX, Provider(TimeoutError()))
    assert "runtime.effect.unknown" == error.code
    assert "doubt" == diary.said[-1]


async def test_the_breaker_is_checked_before_a_lookup() -> None:
    @named_call("look_up")
    async def look_up(*, idempotency_key: str) -> Any:
        raise AssertionError(idempotency_key)

    shop = Dependency("shop", effect=Effect.LOOKUP, lookup=look_up, breaker=SOON)
    diary = Diary()
    with pytest.raises(ClaimLostError):
        await call(caller(diary), shop, Provider(ClaimLostError()))
    one, _, _ = guarded(diary, broken=shop)
    assert OPEN_CODE == (await failed(one, shop, Provider())).code
    assert {"analyse"} == diary.stages_with_effects()


async def test_a_plain_refusal_does_not_open_the_breaker() -> None:
    one, breakers, _ = guarded()
    for n in range(20):
        with pytest.raises(PermanentError):
            await call(one, MODEL, Provider(PermanentError("no", http_status=404)), n)
    assert BreakerPhase.CLOSED is breakers.by_name["model"].state.phase


async def test_rate_limits_open_no_breaker_are_reported_and_delay_the_retry() -> None:
    reported: list[tuple[str, float | None]] = []
    delays: list[float] = []

    async def sleep(seconds: float) -> None:
        delays.append(seconds)
        await asyncio.sleep(0)

    class Refusals(FleetLimits):
        def note_refusal(self, dependency: Dependency, *facts: Any) -> None:
            reported.append((dependency.name, facts[-1]))

    one, breakers, _ = guarded(
        sleep=sleep,
        retry_tokens=defaultdict(lambda: RetryTokenBucket(100.0)),
        limits=Refusals(Time(), Random(1), Log()),
    )
    limited = [
        TransientError("slow", code="llm.http.429_rate_limited", retry_after=7.0),
        TransientError("slow", code="own.bank.busy", http_status=429),
        TransientError("slow", code="aws.service.throttled", retry_after=3.0),
    ]
    provider = Provider(*limited, TransientError("down", code="tool.http.503_x"))

    assert "answer" == await call(one, MODEL, provider)
    assert [("model", 7.0), ("model", None), ("model", 3.0)] == reported
    assert [7.0, 0.0, 3.0, 0.0] == delays
    assert BreakerPhase.CLOSED is breakers.by_name["model"].state.phase


async def test_without_a_retry_token_the_call_ends_at_once_and_is_deferred() -> None:
    tokens = defaultdict(lambda: RetryTokenBucket(0.0))
    log = Log()
    one = caller(retry_tokens=tokens, log=log)
    provider = Provider(TransientError("down", retry_after=7.0))
    error = await failed(one, PURE, provider)
    assert (BUDGET_CODE, 7.0, 1) == (error.code, error.retry_after, len(provider.keys))
    assert "model" == error.facts["dependency"]
    assert [("failed", "runtime.stage.transient", 1, 0)] == attempts(log)


async def test_a_rate_limited_effect_without_a_retry_left_was_not_made() -> None:
    diary = Diary()
    one = caller(diary, retry_tokens=defaultdict(lambda: RetryTokenBucket(0.0)))
    limited = TransientError("slow down", http_status=429)
    assert BUDGET_CODE == (await failed(one, KEYED, Provider(limited))).code
    assert ["begin", "refuse"] == diary.said


async def test_all_chunks_of_a_worker_share_the_retry_tokens() -> None:
    tokens = defaultdict(lambda: RetryTokenBucket(0.0))
    generous = replace(PURE, retry=RetryPolicy(attempts=2, retry_ratio=0.5))
    for n in range(2):
        await call(caller(retry_tokens=tokens), generous, Provider(), n)
    provider = Provider(TransientError("down"))
    assert "answer" == await call(caller(retry_tokens=tokens), generous, provider)
    provider = Provider(TransientError("down"))
    assert (
        BUDGET_CODE
        == (await failed(caller(retry_tokens=tokens), generous, provider)).code
    )


async def test_each_attempt_emits_one_event_with_the_specified_fields() -> None:
    log = Log()
    one = caller(log=log)
    await call(one, PURE, Provider(TransientError("a", code="tool.a.down")), "a")
    await failed(one, PURE, Provider(PermanentError("b", code="tool.b.no")))
    with pytest.raises(ClaimLostError):
        await call(one, PURE, Provider(ClaimLostError()), "c")
    assert [
        ("failed", "tool.a.down", 1, 0),
        ("answered", None, 2, 0),
        ("failed", "tool.b.no", 1, 0),
        ("cut off", None, 1, 0),
    ] == attempts(log)
    hashes = [fields["idempotency_key_hash"] for _, fields in log.said]
    assert hashes[0] == hashes[1]
    assert 3 == len(set(hashes))


async def test_a_call_that_the_breaker_rejects_is_not_an_attempt() -> None:
    log = Log()
    one, _, _ = guarded(broken=MODEL, log=log)
    await failed(one, MODEL, Provider())
    assert [] == attempts(log)
