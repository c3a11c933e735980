"""The limits that the workers of a fleet share, with the true attempts in virtual time.

The fleet is the one that `make flow` measures.
"""

from __future__ import annotations

import asyncio
from asyncio import Semaphore
from collections.abc import Awaitable, Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from piecework import Dependency, Limits, Usage
from piecework.calls.caller import Caller
from piecework.calls.fleet_breaker import BreakerRegistry
from piecework.calls.fleet_limits import FleetLimits
from piecework.calls.limiter import Limiter
from piecework.errors import PermanentError, StoreError, TransientError
from piecework.errors.classify import classify
from piecework.resilience.breaker import CircuitBreaker, Health, Permit
from piecework.resilience.limits import (
    QUOTA_CODE,
    TOO_LARGE_CODE,
    Quota,
    Start,
    micros,
)
from piecework.resilience.retry import RetryPolicy, blocked_on
from piecework.telemetry.emit import listening
from tests.unit.piecework.fakes import Diary, caller
from tests.unit.piecework.fleet_record import MemoryRecord
from tests.unit.piecework.provider import ONCE
from tests.unit.piecework.provider import Provider as Service
from tests.unit.piecework.provider import call as call_service
from tests.unit.virtual import run_virtually
from verification.flow.fleet import Fleet, MemoryQuotas, Silent, usage
from verification.flow.provider import Provider

PATIENT = RetryPolicy(attempts=10, retry_time=600.0)
MODEL = Dependency("model", retry=PATIENT, limits=Limits(requests_per_minute=600))
FOR_EVER = 1e9
#: An argument of 25 tokens.
WIDE = "x" * 100


def clock() -> float:
    return 1.7e9 + asyncio.get_running_loop().time()


def limiter(record: MemoryQuotas, on: Dependency = MODEL, seed: int = 1) -> Limiter:
    """Return the limiter of a process of its own."""
    log: Any = Silent()
    found = FleetLimits(clock, Random(seed), log, record, f"w{seed}").of(on)
    assert found is not None
    return found


async def start(on: Limiter, tokens: int = 0, within: float = FOR_EVER) -> float:
    """Wait for a start; return the seconds of the wait."""
    began = asyncio.get_running_loop().time()
    await on.start(tokens, began + within)
    return asyncio.get_running_loop().time() - began


def virtually(work: Callable[[], Awaitable[None]]) -> Callable[[], None]:
    """Let a test run in virtual time."""

    def test() -> None:
        async def run() -> None:
            await work()

        run_virtually(run())

    test.__name__, test.__doc__ = work.__name__, work.__doc__
    return test


@virtually
async def test_a_fleet_uses_its_quota_and_never_exceeds_it() -> None:
    provider = Provider(clock, requests=600, window_s=60.0)
    fleet = await Fleet(provider, MODEL).run(150.0)
    begin = provider.now() - 150.0
    assert 0 == len(provider.book.refused)
    assert provider.book.in_any_minute() <= 600
    assert provider.book.requests_between(begin + 15, begin + 135) >= 0.95 * 1_200
    assert fleet.record.writes / 150 / fleet.workers <= 1.3


@virtually
async def test_tokens_are_estimated_before_a_call_and_corrected_after_it() -> None:
    limits = Limits(tokens_per_minute=200_000)
    model = replace(MODEL, limits=limits, usage=usage)
    provider = Provider(clock, tokens=200_000, window_s=60.0)
    await Fleet(provider, model, max_tokens=800).run(200.0)
    begin = provider.now() - 200.0
    used = provider.book.tokens_between(begin + 70, begin + 190)
    assert 0.95 * 400_000 <= used <= 400_000


@virtually
async def test_large_calls_take_no_starts_of_smaller_ones() -> None:
    model = replace(MODEL, limits=Limits(tokens_per_minute=6_000))
    process = limiter(MemoryQuotas(), model)
    while len(process.held) < 3:  # starts that are reserved ahead of their calls
        await start(process, tokens=1)
        process.release()
        await asyncio.sleep(0.1)
    waits = await asyncio.gather(*(start(process, tokens=1_000) for _ in range(3)))
    assert [9.0 <= wait for wait in sorted(waits)] == [False, True, True]
    assert max(waits) >= 19.0


@virtually
async def test_a_held_start_goes_to_the_first_call_that_it_fits() -> None:
    record, now = MemoryQuotas(), micros(clock())
    process = limiter(record, replace(MODEL, limits=Limits(tokens_per_minute=6_000)))
    process.held += [Start(now, 1), Start(now + 400_000, 100)]
    assert await start(process, tokens=100) == pytest.approx(0.4)
    process.held.append(Start(now + 800_000, 100))
    waits = await asyncio.gather(start(process, tokens=100), start(process, tokens=1))
    assert [pytest.approx(0.4), 0.0] == waits
    assert 0 == record.writes


@virtually
async def test_a_dead_worker_costs_the_fleet_little_more_than_a_second() -> None:
    record = MemoryQuotas()
    dead = limiter(record)
    calls = [asyncio.create_task(start(dead)) for _ in range(100)]
    await asyncio.sleep(0.1)
    for call in calls:
        call.cancel()
    assert await start(limiter(record, seed=2)) < 1.5


@virtually
async def test_a_call_that_gets_no_start_in_time_says_when_to_come_back() -> None:
    slow = replace(MODEL, limits=Limits(requests_per_minute=1))
    process = limiter(MemoryQuotas(), slow)
    assert await start(process) < 1.0
    with pytest.raises(TransientError) as caught:
        await start(process, within=30.0)
    assert QUOTA_CODE == caught.value.code
    assert "model" == blocked_on(classify(caught.value))
    assert 30.0 <= (caught.value.retry_after or 0.0) <= 63.0
    assert await start(process) < 35.0


@virtually
async def test_a_call_larger_than_a_minute_is_refused_at_once() -> None:
    small = replace(MODEL, limits=Limits(tokens_per_minute=100))
    with pytest.raises(PermanentError) as caught:
        await start(limiter(MemoryQuotas(), small), tokens=101)
    assert TOO_LARGE_CODE == caught.value.code


@virtually
async def test_an_operators_limit_replaces_the_declared_one_while_calls_wait() -> None:
    record = MemoryQuotas()
    slow = replace(MODEL, limits=Limits(requests_per_minute=1))
    process = limiter(record, slow)
    await start(process)
    waiting = asyncio.create_task(start(process))
    await asyncio.sleep(5.0)
    stored = record.rows["model"]
    record.rows["model"] = replace(
        stored,
        seq=stored.seq + 1,
        operator=Limits(requests_per_minute=6_000),
        requests_next=0,
    )
    assert await waiting < 10.0


@virtually
async def test_the_tokens_of_a_refused_answer_count_as_well() -> None:
    limits = Limits(tokens_per_minute=600)
    model = replace(MODEL, limits=limits, estimate=lambda *_: 1)
    used = PermanentError("cut off", code="llm.output.truncated", usage=Usage(400, 200))
    log: Any = Silent()
    made_by = caller(
        clock=clock, limits=FleetLimits(clock, Random(1), log, MemoryQuotas())
    )
    service, began = Service(used), asyncio.get_running_loop().time()
    with pytest.raises(PermanentError):
        await call_service(made_by, model, service, "a")
    await call_service(made_by, model, service, "b")
    assert asyncio.get_running_loop().time() - began > 45.0


@virtually
async def test_an_effect_whose_intent_took_long_takes_another_start() -> None:
    class Slow(Diary):
        async def begin(self, *facts: Any) -> Any:
            begun = await Diary.begin(self, *facts)
            await asyncio.sleep(0.0 if "not sent" in self.said else 1.5)
            return begun

    log: Any = Silent()
    limits = FleetLimits(clock, Random(1), log, MemoryQuotas())
    diary, service, began = Slow(), Service(), asyncio.get_running_loop().time()
    fax = replace(ONCE, limits=Limits(requests_per_minute=20))
    await call_service(caller(diary, clock=clock, limits=limits), fax, service)
    assert ["begin", "not sent", "begin", "finish"] == diary.said
    assert 1 == len(service.keys)
    assert asyncio.get_running_loop().time() - began > 60 / 20


@virtually
async def test_a_start_is_not_used_late_because_the_breakers_answer_slowly() -> None:
    class Slow(MemoryRecord):
        async def reach(self, request: str) -> None:
            requests.append(request)
            await asyncio.sleep(slow.pop(request, 0.0))

    log: Any = Silent()
    rules = CircuitBreaker(minimum_calls=2, window_calls=4, open_s=30.0)
    fax = replace(ONCE, name="fax", limits=Limits(20), breaker=rules, retry=PATIENT)
    limits, slow = FleetLimits(clock, Random(1), log, MemoryQuotas()), {"read_all": 1.5}
    requests: list[str] = []
    breakers = BreakerRegistry(clock, Random(1), log, Slow(clock))
    service, began = Service(), asyncio.get_running_loop().time()

    def one() -> Caller:
        return caller(Diary(), clock=clock, limits=limits, breakers=breakers)

    await call_service(one(), fax, service, "read")
    assert (1, True) == (
        len(service.keys),
        asyncio.get_running_loop().time() - began > 60 / 20,
    )

    for chunk in "123":
        permit = await breakers.request_permit(fax)
        assert isinstance(permit, Permit)
        breakers.record_end(fax, permit, Health.FAILURE, chunk=chunk)
    await breakers.sync()
    await asyncio.sleep(31.0)
    slow["take_probe"] = 1.5
    with pytest.raises(TransientError) as caught:
        await call_service(one(), fax, service, "probe")
    assert (QUOTA_CODE, 1) == (caught.value.code, len(service.keys))
    await breakers.sync()
    await call_service(one(), fax, service, "probe")
    assert (2, 2) == (len(service.keys), requests.count("take_probe"))


@virtually
async def test_a_call_after_a_pause_reads_that_it_has_ended() -> None:
    class Record(MemoryRecord):
        async def read_all(self) -> Any:
            limits.adopt("fax", Quota(paused=self.tokens.get("fax", "")))
            return await MemoryRecord.read_all(self)

    log: Any = Silent()
    limits, record = FleetLimits(clock, Random(1), log), Record(clock)
    breakers = BreakerRegistry(clock, Random(1), log, record)
    one = caller(Diary(), clock=clock, limits=limits, breakers=breakers)
    fax, service = replace(ONCE, name="fax", breaker=None, retry=PATIENT), Service()
    record.tokens["fax"] = "why (by me)"
    await breakers.refresh()
    with pytest.raises(TransientError, match="fax is paused: why"):
        await call_service(one, fax, service)
    assert set() == breakers.called
    await asyncio.sleep(20.0)
    record.tokens.clear()
    await call_service(one, fax, service)
    assert ({"fax"}, 1) == (breakers.called, len(service.keys))


@virtually
async def test_an_effect_has_no_intent_while_it_waits_for_a_call_slot() -> None:
    log: Any = Silent()
    limits, slots = FleetLimits(clock, Random(1), log, MemoryQuotas()), Semaphore(0)
    for fax in (ONCE, replace(ONCE, limits=Limits(600))):
        diary, service = Diary(), Service()
        one = caller(diary, clock=clock, limits=limits, slots=slots)
        waiting = asyncio.create_task(call_service(one, fax, service))
        await asyncio.sleep(5.0)
        assert ([], []) == (diary.said, service.keys)
        slots.release()
        await waiting
        assert ["begin", "finish"] == diary.said
        await slots.acquire()  # the call has freed it


@virtually
async def test_an_effect_that_no_minute_can_hold_is_not_in_doubt() -> None:
    log: Any = Silent()
    limits = FleetLimits(clock, Random(1), log, MemoryQuotas())
    diary, service = Diary(), Service()
    fax = replace(ONCE, limits=Limits(tokens_per_minute=1))
    with pytest.raises(PermanentError) as caught:
        await call_service(
            caller(diary, clock=clock, limits=limits), fax, service, WIDE
        )
    assert (TOO_LARGE_CODE, []) == (caught.value.code, diary.said)


@virtually
async def test_a_dependency_without_limits_sends_no_request() -> None:
    provider = Provider(clock)
    fleet = Fleet(provider, replace(MODEL, limits=None), calls=200)
    await fleet.run(60.0)
    assert (200, 0, 0) == (fleet.answered, fleet.record.writes, fleet.record.reads)


@virtually
async def test_calls_wait_while_the_record_is_unreachable() -> None:
    class Unreachable(MemoryQuotas):
        async def write(self, name: str, seen: int, quota: Quota) -> Any:
            if clock() < 1.7e9 + 1010.0:
                raise StoreError("The table does not answer.")
            return await MemoryQuotas.write(self, name, seen, quota)

    assert 10.0 <= await start(limiter(Unreachable())) < 13.0


@virtually
async def test_a_cancelled_call_leaves_its_start_to_the_next() -> None:
    process = limiter(MemoryQuotas(), replace(MODEL, limits=Limits(60)))
    first = asyncio.create_task(start(process))
    second = asyncio.create_task(start(process))
    await asyncio.sleep(0)
    first.cancel()
    assert await second < 1.0


@virtually
async def test_a_start_that_is_given_as_the_wait_ends_is_used() -> None:
    process = limiter(MemoryQuotas(), replace(MODEL, limits=Limits(concurrent=1)))
    await start(process)

    def let_start() -> None:
        process.release()
        process._hand_out(micros(clock()))

    asyncio.get_running_loop().call_later(2.0, let_start)
    assert await start(process, within=2.0) == pytest.approx(2.0)
    assert 1 == process.flight.taken


@virtually
async def test_the_calls_in_flight_of_a_fleet_never_exceed_their_limit() -> None:
    model = replace(MODEL, limits=Limits(concurrent=20))
    provider = Provider(clock, answer_s=2.0)
    fleet = await Fleet(provider, model, workers=4).run(60.0)
    assert 20 == provider.most_in_flight
    assert fleet.answered >= 0.9 * 20 * 60 / 2.0
    assert fleet.record.writes / 60 / fleet.workers <= 1.3


@virtually
async def test_a_dead_worker_keeps_its_calls_in_flight_no_longer_than_its_lease() -> (
    None
):
    record, model = MemoryQuotas(), replace(MODEL, limits=Limits(concurrent=4))
    dead = limiter(record, model)
    for _ in range(4):
        await start(dead)
    await dead._task.stop()
    assert 5.0 < await start(limiter(record, model, seed=2)) < 13.0


@virtually
async def test_a_worker_shares_its_calls_in_flight_with_one_that_asks() -> None:
    model = replace(MODEL, limits=Limits(concurrent=8))
    provider, record = Provider(clock), MemoryQuotas()
    first = Fleet(provider, model, workers=1, record=record)
    second = Fleet(provider, model, workers=1, record=record, seed=2)
    running = asyncio.create_task(first.run(40.0))
    await asyncio.sleep(10.0)
    await second.run(30.0)
    await running
    assert second.answered >= 0.4 * 8 * 30
    assert 8 == provider.most_in_flight


@virtually
async def test_a_429_slows_a_fleet_without_limits_down() -> None:
    provider = Provider(clock, requests=10, window_s=1.0)
    model = replace(MODEL, limits=None, adaptive_rate=True)
    await Fleet(provider, model, workers=4).run(130.0)
    begin, book = provider.now() - 130.0, provider.book
    answered = book.requests_between(begin + 60, begin + 130)
    assert answered >= 0.8 * 10 * 70
    assert book.refused_between(begin + 60, begin + 130) <= 0.025 * answered


@virtually
async def test_a_429_by_chance_slows_no_other_call_down() -> None:
    """Unless the dependency is declared to have an unknown limit."""
    provider = Provider(clock, requests=10, window_s=1.0)
    fleet = Fleet(provider, replace(MODEL, limits=None), workers=4)
    await fleet.run(20.0)
    assert provider.book.refused
    assert 0 == fleet.record.writes


@virtually
async def test_calls_that_come_together_share_a_write_and_then_cost_nothing() -> None:
    record = MemoryQuotas()
    process = limiter(record)
    assert max(await asyncio.gather(*(start(process) for _ in range(3)))) < 0.5
    await asyncio.sleep(10.0)
    writes = record.writes
    await asyncio.sleep(60.0)
    assert writes == record.writes


@virtually
async def test_a_worker_that_loses_races_tries_again_at_once() -> None:
    class Busy(MemoryQuotas):
        async def write(self, name: str, seen: int, quota: Quota) -> Any:
            if self.writes < 4:
                self.rows[name] = Quota(seq=seen + 1)
            return await MemoryQuotas.write(self, name, seen, quota)

    assert await start(limiter(Busy())) < 0.6


@virtually
async def test_the_fleet_waits_once_for_the_longest_retry_after() -> None:
    process = limiter(MemoryQuotas())
    for seconds in (2.0, 10.0):
        process.note_refusal(round(clock() * 1e6), seconds)
    assert 10.0 <= await start(process) < 12.0


@virtually
async def test_the_first_refusal_without_a_limit_says_once_what_to_declare() -> None:
    bare = replace(MODEL, limits=None)
    told: list[tuple[str, str]] = []
    log: Any = Silent()
    fleet = FleetLimits(clock, Random(1), log, MemoryQuotas(), "w1")
    fleet.adopt("set by an operator", Quota(operator=Limits(concurrent=1)))
    with listening(lambda name, fields: told.append((name, fields["dependency"]))):
        for on in (
            MODEL,
            bare,
            replace(bare, name="set by an operator"),
            replace(bare, name="other", adaptive_rate=True),
            replace(bare, limits=Limits(concurrent=4)),
            bare,
        ):
            fleet.note_refusal(on, 0, None)

    assert told == [("limits.undeclared", "model"), ("limits.undeclared", "other")]


@virtually
async def test_the_rate_falls_by_the_share_of_the_refused_calls() -> None:
    process = limiter(record := MemoryQuotas())
    for answers in (0, 2):
        await asyncio.sleep(10.0)
        before, now = process.quota.pace, round(clock() * 1e6)
        process.answers.extend([now] * answers)
        process.note_refusal(now, None)
        await asyncio.sleep(2.0)
    rate = before.rate(now) * 1_000
    assert rate * 2 / 3 == pytest.approx(
        record.rows["model"].pace.refused_rate, rel=0.01
    )


@virtually
async def test_the_tokens_of_all_waiting_calls_delay_a_deferred_one() -> None:
    process = limiter(MemoryQuotas(), replace(MODEL, limits=Limits(None, 200)))
    await start(process, tokens=200)
    waits = (start(process, tokens=60, within=10.0) for _ in range(2))
    first, _ = await asyncio.gather(*waits, return_exceptions=True)
    assert isinstance(first, TransientError)
    assert 30.0 <= (first.retry_after or 0.0) <= 45.0


@virtually
async def test_starts_are_reserved_for_the_calls_that_are_about_to_end() -> None:
    process = limiter(MemoryQuotas(), replace(MODEL, limits=Limits(600, concurrent=1)))
    await start(process)
    waiting = [asyncio.create_task(start(process)) for _ in range(2)]
    await asyncio.sleep(2.5)
    process.answers.extend([round(clock() * 1e6)] * 2)
    await asyncio.sleep(0.8)
    for call in waiting:
        process.release()
        assert await call < 3.6
