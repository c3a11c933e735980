"""The end of an attempt is classified once, and is carried as a value."""

from __future__ import annotations

import asyncio
import gc
import inspect
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from math import inf
from random import Random
from typing import Any

import pytest

from piecework import (
    CircuitBreaker,
    Context,
    Dependency,
    Effect,
    Fallback,
    Stage,
    named_call,
)
from piecework.calls.fleet_breaker import BreakerRegistry
from piecework.calls.fleet_limits import FleetLimits
from piecework.calls.pause_gate import PauseGate
from piecework.errors import PolicyError, StageError, StoreError, TransientError
from piecework.pipelines import Pipeline
from piecework.resilience.limits import micros
from piecework.resilience.retry import Answered, Failed, RetryPolicy
from tests.unit.piecework.fakes import (
    NOW,
    SCOPE,
    Clause,
    Diary,
    Log,
    caller,
    context,
    run,
)
from tests.unit.piecework.provider import KEYED, ONCE, PURE, Provider, call
from tests.unit.virtual import run_virtually
from verification.flow.fleet import MemoryQuotas


class BankError(Exception):
    """An error that only the dependency's `classify` knows."""


class Classifier:
    """The `classify` of a dependency: counts its calls."""

    def __init__(self, meaning: StageError) -> None:
        self.meaning = meaning
        self.calls = 0

    def __call__(self, error: BaseException) -> StageError | None:
        self.calls += 1
        return self.meaning if isinstance(error, BankError) else None


def with_breakers(log: Log) -> Any:
    breakers = BreakerRegistry(lambda: NOW, Random(1), log)
    return caller(Diary(), breakers=breakers, log=log)


@pytest.mark.parametrize(
    "effect", [Effect.PURE, Effect.PROVIDER_IDEMPOTENT, Effect.NON_IDEMPOTENT]
)
@pytest.mark.parametrize(
    "meaning", [TransientError("down"), PolicyError("no", http_status=422)]
)
async def test_each_failed_attempt_is_classified_once(
    effect: Effect, meaning: StageError
) -> None:
    classifier, log = Classifier(meaning), Log()
    dependency = Dependency(
        "bank",
        effect=effect,
        retry=RetryPolicy(attempts=3),
        classify=classifier,
        breaker=CircuitBreaker(),
        fallback=[Fallback(None, lambda: "by rules")] if effect is Effect.PURE else [],
    )
    provider = Provider(*(BankError(f"{n}") for n in range(3)))
    ends = await asyncio.gather(
        call(with_breakers(log), dependency, provider), return_exceptions=True
    )

    assert len(ends) == 1
    assert classifier.calls == len(provider.keys) == log.names().count("call.attempt")


async def test_the_dependency_does_not_classify_a_rejected_call() -> None:
    classifier = Classifier(TransientError("down"))
    dependency = Dependency(
        "bank",
        retry=RetryPolicy(attempts=1),
        breaker=CircuitBreaker(minimum_calls=2),
        classify=classifier,
    )
    one, provider = with_breakers(Log()), Provider(BankError(), BankError())
    for chunk in range(3):
        with pytest.raises((BankError, TransientError)):
            await call(one, dependency, provider, scope=replace(SCOPE, chunk=chunk))

    assert (2, 2) == (classifier.calls, len(provider.keys))


async def test_the_end_of_a_call_is_its_answer_or_its_failure() -> None:
    provider = Provider(error := BankError("no"))
    bank = Dependency("bank", classify=Classifier(PolicyError("no")))
    failed = await caller().call(SCOPE, bank, provider.ask, (), {})
    answered = await caller().call(SCOPE, bank, provider.ask, (), {})

    assert isinstance(failed, Failed)
    assert failed.error is error
    assert ("runtime.stage.policy", 1) == (
        failed.envelope.code,
        failed.envelope.attempt,
    )
    assert Answered('"answer"') == answered


async def test_a_failed_call_has_the_failures_of_its_earlier_attempts() -> None:
    bank = Dependency("bank", retry=RetryPolicy(attempts=3))
    provider = Provider(*(TransientError(f"{n}") for n in range(3)))
    end = await caller().call(SCOPE, bank, provider.ask, (), {})

    assert isinstance(end, Failed)
    assert [1, 2, 3] == [each.attempt for each in (*end.earlier, end.envelope)]


async def test_a_task_that_the_function_itself_cancelled_is_a_failed_attempt() -> None:
    provider = Provider(asyncio.CancelledError())
    assert (await call(caller(), PURE, provider), len(provider.keys)) == ("answer", 2)


async def test_no_call_is_made_after_one_could_not_reach_the_tables() -> None:
    one, bank = caller(), Dependency("bank", retry=RetryPolicy(attempts=1))
    provider = Provider(StoreError("The table does not answer."))
    for argument in ("first", "second"):
        with pytest.raises(StoreError):
            await call(one, bank, provider, argument)

    assert len(provider.keys) == 1


async def test_four_frames_lie_between_a_stage_and_the_called_function() -> None:
    frames: list[str] = []

    @named_call("ask")
    async def ask(*, idempotency_key: str) -> str:
        del idempotency_key
        await asyncio.sleep(0)
        found = [frame.function for frame in inspect.stack()]
        frames.extend(found[1 : found.index("stage")])
        return "answer"

    async def stage(ctx: Context[Clause]) -> str:
        return await ctx.call(Dependency("bank"), ask)

    pipeline = Pipeline("frames", payload=Clause, stages=[Stage(stage)])
    await run(pipeline, ctx=context(pipeline))

    assert ["_send", "make", "call", "call"] == frames


class Answer:
    """Something large that a call has in memory."""

    alive = 0

    def __init__(self) -> None:
        Answer.alive += 1

    def __del__(self) -> None:
        Answer.alive -= 1


@pytest.fixture
def no_collection() -> Iterator[None]:
    gc.disable()
    Answer.alive = 0
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collection")
@pytest.mark.parametrize("attempts", [1, 2])
async def test_a_failure_that_the_stage_handles_leaves_nothing_in_memory(
    attempts: int,
) -> None:
    alive: list[int] = []

    @named_call("ask")
    async def ask(*, idempotency_key: str) -> str:
        answer = Answer()
        await asyncio.sleep(0)
        message = f"{idempotency_key} {answer}"
        raise TransientError(message)

    async def stage(ctx: Context[Clause]) -> str:
        bank = Dependency("bank", retry=RetryPolicy(attempts=attempts), breaker=None)
        with suppress(TransientError):
            await ctx.call(bank, ask)
        alive.append(Answer.alive)
        return "without the bank"

    pipeline = Pipeline("handles", payload=Clause, stages=[Stage(stage)])
    await run(pipeline, ctx=context(pipeline))

    assert [0] == alive


def test_a_call_that_a_pause_keeps_back_holds_no_slot() -> None:
    async def act() -> None:
        slots, gate, service = asyncio.Semaphore(1), PauseGate(), Provider()
        paused, other = caller(slots=slots, gate=gate), caller(slots=slots)
        await slots.acquire()
        early = asyncio.ensure_future(call(paused, PURE, service))
        await asyncio.sleep(1)
        assert gate.is_waiting
        gate.close()
        late = asyncio.ensure_future(call(paused, PURE, service))
        await asyncio.sleep(1)
        slots.release()
        async with asyncio.timeout(1):
            await call(other, PURE, service)
        assert 1 == len(service.keys)
        gate.open()
        await asyncio.gather(early, late)

    run_virtually(act())


async def test_a_pause_interrupts_no_call_that_writes_its_intent() -> None:
    class Slow(Diary):
        async def begin(self, *facts: Any) -> Any:
            gate.close()
            return await Diary.begin(self, *facts)

    interrupts: list[str] = []
    gate, service = PauseGate(lambda: interrupts.append("quiet")), Provider()
    await call(caller(Slow(), gate=gate), ONCE, service)
    assert ([], 1) == (interrupts, len(service.keys))


class Slow(Provider):
    async def answer_once(self, *args: Any, **facts: Any) -> Any:
        await asyncio.sleep(1)
        return await super().answer_once(*args, **facts)


def test_a_stopping_worker_starts_no_effect_that_its_release_may_cut_off() -> None:
    async def act() -> None:
        release_at = asyncio.get_running_loop().time() + 5
        diary, gate, service = Diary(), PauseGate(), Slow()
        stopping = caller(diary, gate=gate, release_at=lambda: release_at)
        starts = [replace(ONCE, timeout=4.5), replace(KEYED, timeout=6.0), PURE]
        long = replace(ONCE, timeout=6.0)
        late = asyncio.ensure_future(call(stopping, long, service))
        others = asyncio.gather(*(call(stopping, e, service, e.name) for e in starts))
        await asyncio.sleep(0.5)
        assert (True, False) == (gate.is_waiting, gate.waits_for_release)
        await others
        assert (3, 2) == (len(service.keys), diary.said.count("begin"))
        await asyncio.sleep(60)
        assert (True, True) == (gate.is_waiting, gate.waits_for_release)
        late.cancel()
        await asyncio.wait([late])
        assert (3, False) == (len(service.keys), gate.waits_for_release)

    run_virtually(act())


@pytest.mark.parametrize("meanwhile", ["slot", "intent"])
def test_a_stop_keeps_an_effect_from_starting_until_it_is_sent(meanwhile: str) -> None:
    class Stopped(Diary):
        async def begin(self, *facts: Any) -> Any:
            stop()
            return await super().begin(*facts)

    release_at = [inf]

    def stop() -> None:
        release_at[0] = 0.0

    async def act() -> None:
        diary, gate, slots = Stopped(), PauseGate(), asyncio.Semaphore(1)
        one = caller(diary, gate=gate, slots=slots, release_at=lambda: release_at[0])
        service = Provider()
        if meanwhile == "slot":
            await slots.acquire()
        late = asyncio.ensure_future(call(one, ONCE, service))
        await asyncio.sleep(1)
        if meanwhile == "slot":
            stop()
            slots.release()
        await asyncio.sleep(1)
        said = ["begin", "not sent"] if meanwhile == "intent" else []
        assert (said, []) == (diary.said, service.keys)
        assert (True, False) == (gate.waits_for_release, slots.locked())
        late.cancel()

    run_virtually(act())


def test_the_breakers_are_read_when_the_call_has_its_slot() -> None:
    held: list[bool] = []

    class Read(BreakerRegistry):
        async def refresh(self) -> None:
            held.append(slots.locked())

    slots = asyncio.Semaphore(1)
    breakers = Read(lambda: NOW, Random(1), Log())
    one = caller(slots=slots, breakers=breakers)
    bank = replace(KEYED, breaker=CircuitBreaker())
    run_virtually(call(one, bank, Provider()))
    assert held
    assert all(held)


def test_a_refusal_is_about_the_time_when_its_call_started() -> None:
    refused: list[int] = []

    class Slow(BreakerRegistry):
        async def request_permit(self, dependency: Dependency, chunk: str = "") -> Any:
            await asyncio.sleep(5)
            return await super().request_permit(dependency, chunk)

    class Noting(FleetLimits):
        def note_refusal(self, _: Dependency, started: int, __: float | None) -> None:
            refused.append(started)

    def clock() -> float:
        return NOW + asyncio.get_running_loop().time()

    async def act() -> None:
        log: Any = Log()
        began = micros(clock())
        one = caller(
            clock=clock,
            breakers=Slow(clock, Random(1), log),
            limits=Noting(clock, Random(1), log, MemoryQuotas(), "w"),
        )
        busy = TransientError("busy", http_status=429)
        model = replace(PURE, retry=RetryPolicy(attempts=1))
        with suppress(TransientError):
            await call(one, model, Provider(busy))
        assert [began + micros(5)] == refused

    run_virtually(act())
