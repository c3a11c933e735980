"""Calls that several chunks make once: the answer, the wait, the takeover, the end."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from piecework.calls.call import CallScope
from piecework.calls.caller import Caller
from piecework.calls.equal_calls import DEFERRED_S, MAX_EARLY_DEFERRALS, WAIT_S
from piecework.dependency import Dependency, Fallback
from piecework.domain.effect import Effect
from piecework.errors import PieceworkError, StoreError, TransientError, UsageError
from piecework.errors.classify import envelope_of
from piecework.idempotency.record import BeginRequest, Ended, State, Verdict
from piecework.resilience.retry import RetryPolicy
from piecework.standalone import (
    ByKey,
    MemoryIdempotency,
    SequenceNumbers,
    TimeWindow,
)
from tests.unit.piecework.fakes import NOW, Diary, Killed, caller
from tests.unit.piecework.provider import Provider, RefusedError, call

ONCE = RetryPolicy(attempts=1)
WINDOW = Dependency("model", retry=ONCE, by=TimeWindow(300), scope="ann")
NUMBERED = Dependency(
    "account",
    retry=ONCE,
    effect=Effect.PROVIDER_IDEMPOTENT,
    by=SequenceNumbers(of=lambda args, **_: args[0]),
    scope=lambda args, **_: args[1],
)
OTHER = CallScope("acme", "other", 9, "summarise", "elsewhere")


class World:
    """A store, a clock that sleeping moves, and the chunks that share both."""

    def __init__(self) -> None:
        self.now = NOW
        self.store = MemoryIdempotency(clock=lambda: self.now)
        self.slept: list[float] = []
        self.waits = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.waits.set()
        self.now += seconds
        await asyncio.sleep(0)

    def chunk(self, journal: Diary | None = None, **facts: Any) -> Caller:
        given = {"operations": self.store, "sleep": self.sleep} | facts
        return caller(journal, clock=lambda: self.now, **given)


async def code_of(work: Any) -> str:
    with pytest.raises(PieceworkError) as caught:
        await work
    return caught.value.code


async def test_an_answer_is_held_from_the_moment_in_which_it_is_counted() -> None:
    class Hangs(MemoryIdempotency):
        async def settle(self, *_: Any) -> bool:
            return await asyncio.Event().wait()

    diary = Diary()
    account = World().chunk(diary, operations=Hangs(clock=lambda: NOW))
    making = asyncio.create_task(call(account, NUMBERED, Provider(), 1, "x"))
    await asyncio.sleep(0.01)
    making.cancel()
    await asyncio.gather(making, return_exceptions=True)
    assert [*diary.held.values()] == ['"answer"']


# ── a time window ─────────────────────────────────────────────────────────────


async def test_two_chunks_pay_for_an_equal_call_once_within_the_window() -> None:
    world, provider = World(), Provider()
    first, journal = world.chunk(), Diary()
    second, third = world.chunk(journal), world.chunk()
    assert await call(first, WINDOW, provider, "a") == "answer"
    world.now += 299
    assert await call(second, WINDOW, provider, "a", scope=OTHER) == "answer"
    assert (second.counts.made, second.counts.cached) == (0, 1)
    assert list(journal.calls.values()) == ['"answer"']
    world.now += 1
    await call(third, WINDOW, provider, "a", scope=OTHER)
    assert len(set(provider.keys)) == 2


@pytest.mark.parametrize(
    ("dependency", "scope"),
    [
        (replace(WINDOW, scope="bob"), OTHER),
        (replace(WINDOW, name="other"), OTHER),
        (replace(WINDOW, version="2"), OTHER),
        (WINDOW, replace(OTHER, tenant="globex")),
    ],
    ids=["scope", "dependency", "version", "tenant"],
)
async def test_another_scope_dependency_version_or_tenant_does_not_share(
    dependency: Dependency, scope: CallScope
) -> None:
    world, provider = World(), Provider()
    await call(world.chunk(), WINDOW, provider, "a")
    await call(world.chunk(), dependency, provider, "a", scope=scope)
    assert len(provider.keys) == 2


class Blocked(Provider):
    """Answers once it may."""

    def __init__(self) -> None:
        super().__init__()
        self.may_answer = asyncio.Event()

    async def answer_once(self, *args: Any, idempotency_key: str, **kwargs: Any) -> Any:
        self.keys.append(idempotency_key)
        await self.may_answer.wait()
        return self.answer


async def test_an_equal_call_waits_a_little_for_the_first_and_gets_its_answer() -> None:
    world, provider = World(), Blocked()
    first = asyncio.create_task(call(world.chunk(), WINDOW, provider, "a"))
    await asyncio.sleep(0.01)
    second = call(world.chunk(), WINDOW, provider, "a", scope=OTHER)
    waiting = asyncio.create_task(second)
    await world.waits.wait()
    provider.may_answer.set()
    assert [await first, await waiting] == ["answer"] * 2
    assert len(provider.keys) == 1


async def test_a_longer_wait_defers_the_chunk_and_makes_no_call() -> None:
    world, provider = World(), Blocked()
    first = asyncio.create_task(call(world.chunk(), WINDOW, provider, "a"))
    await asyncio.sleep(0.01)
    with pytest.raises(TransientError) as caught:
        await call(world.chunk(), WINDOW, provider, "a", scope=OTHER)
    assert caught.value.code == "idempotency.key.in_progress"
    failure = envelope_of(caught.value)
    assert (failure.dependency, failure.retry_after) == ("model", DEFERRED_S)
    assert sum(world.slept) == WAIT_S
    assert len(provider.keys) == 1
    first.cancel()
    with suppress(asyncio.CancelledError):
        await first
    provider.may_answer.set()
    await call(world.chunk(), WINDOW, provider, "a", scope=OTHER)
    assert len(provider.keys) == 2, "a call that is cut off blocks no other"


async def test_no_equal_call_is_made_while_the_claim_of_the_first_may_last() -> None:
    world, provider = World(), Blocked()
    one = world.chunk()
    one.equal_calls = replace(one.equal_calls, claim_s=960.0)
    first = asyncio.create_task(call(one, WINDOW, provider, "a"))
    await asyncio.sleep(0.01)
    world.now += 940.0
    second = call(world.chunk(), WINDOW, provider, "a", scope=OTHER)
    assert "idempotency.key.in_progress" == await code_of(second)
    first.cancel()


async def test_a_failure_is_not_shared() -> None:
    world, provider = World(), Provider(ConnectionError("lost"))
    with pytest.raises(ConnectionError):
        await call(world.chunk(), WINDOW, provider, "a")
    assert await call(world.chunk(), WINDOW, provider, "a", scope=OTHER) == "answer"


# ── a takeover ────────────────────────────────────────────────────────────────


async def test_a_takeover_does_not_wait_for_the_record_of_its_own_dead_claim() -> None:
    world, provider = World(), Provider(Killed())
    with pytest.raises(Killed):
        await call(world.chunk(), WINDOW, provider, "a")
    assert await call(world.chunk(), WINDOW, provider, "a") == "answer"
    assert (world.slept, len(set(provider.keys))) == ([], 1)


class DiesAfter(MemoryIdempotency):
    """A store whose worker dies as soon as an answer is settled."""

    async def settle(
        self, request: BeginRequest, state: State, value: str | None = None
    ) -> bool:
        await MemoryIdempotency.settle(self, request, state, value)
        raise Killed


@pytest.mark.parametrize("args", [("a",), (1, "account-1")])
async def test_a_death_after_the_settlement_repeats_no_call(args: Any) -> None:
    world, provider, journal = World(), Provider(), Diary()
    dependency = WINDOW if len(args) == 1 else NUMBERED
    dying = DiesAfter(clock=lambda: world.now)
    with pytest.raises(Killed):
        await call(world.chunk(journal, operations=dying), dependency, provider, *args)
    world.store._records = dying._records
    next_claim = world.chunk(journal)
    assert await call(next_claim, dependency, provider, *args) == "answer"
    assert len(provider.keys) == 1
    assert (next_claim.counts.made, next_claim.counts.cached) == (1, 0), "it was paid"


# ── sequence numbers ──────────────────────────────────────────────────────────


async def test_a_number_is_made_once_in_its_order() -> None:
    world, provider = World(), Provider()
    early = world.chunk()
    assert "idempotency.sequence.early" == await code_of(
        call(early, NUMBERED, provider, 2, "account-1")
    )
    early.counts.early_deferrals = MAX_EARLY_DEFERRALS
    assert "idempotency.sequence.gap" == await code_of(
        call(early, NUMBERED, provider, 2, "account-1")
    )
    for number in (1, 2, 2, 1):
        await call(world.chunk(), NUMBERED, provider, number, "account-1", scope=OTHER)
    await call(world.chunk(), NUMBERED, provider, 1, "account-2")
    assert [each[0] for each in provider.args] == [1, 2, 1]
    world.now += 86_400
    assert "idempotency.answer.not_kept" == await code_of(
        call(world.chunk(), NUMBERED, provider, 1, "account-1")
    )


async def test_a_number_of_another_chunk_is_no_effect_of_this_one() -> None:
    world, provider, journal = World(), Provider(), Diary()
    await call(world.chunk(), NUMBERED, provider, 1, "account-1")
    for _ in range(2):
        one = world.chunk(journal)
        await call(one, NUMBERED, provider, 1, "account-1", scope=OTHER)
        world.now += 86_400
    assert (journal.effects, one.counts.replayed) == ({}, 1)


@pytest.mark.parametrize(
    ("error", "code"),
    [(RefusedError(422), ""), (ConnectionError(), "idempotency.key.mismatch")],
)
async def test_other_arguments_may_only_take_a_number_that_did_not_happen(
    error: Exception, code: str
) -> None:
    world, provider = World(), Provider(error)
    with pytest.raises(type(error)):
        await call(world.chunk(), NUMBERED, provider, 1, "account-1", "10 USD")
    work = call(world.chunk(), NUMBERED, provider, 1, "account-1", "9 USD", scope=OTHER)
    if code:
        assert code == await code_of(work)
    else:
        assert await work == "answer"


async def test_chunks_send_the_same_key_for_the_same_number() -> None:
    world, provider = World(), Provider(ConnectionError("lost"))
    with pytest.raises(ConnectionError):
        await call(world.chunk(), NUMBERED, provider, 1, "account-1")
    await call(world.chunk(), NUMBERED, provider, 1, "account-1", scope=OTHER)
    assert len(set(provider.keys)) == 1


async def test_a_number_that_an_operator_resolved_makes_the_next_one_due() -> None:
    world, provider, journal = World(), Provider(Killed()), Diary()
    with pytest.raises(Killed):
        await call(world.chunk(journal), NUMBERED, provider, 1, "account-1")
    (key,) = journal.effects
    journal.effects[key] = '"receipt"'
    redriven = world.chunk(journal, gen=2)
    assert "idempotency.key.in_progress" == await code_of(
        call(redriven, NUMBERED, provider, 1, "account-1")
    )
    world.now += 1_000  # the lease of the dead claim
    assert await call(redriven, NUMBERED, provider, 1, "account-1") == "receipt"
    assert await call(world.chunk(), NUMBERED, provider, 2, "account-1") == "answer"


@pytest.mark.parametrize("number", [0, 1.0, "1", None])
async def test_what_is_not_a_number_is_refused_before_the_call(number: Any) -> None:
    provider = Provider()
    work = call(World().chunk(), NUMBERED, provider, number, "account-1")
    assert "idempotency.key.unusable" == await code_of(work)
    assert provider.keys == []


# ── a store that does not answer ──────────────────────────────────────────────


class Away(MemoryIdempotency):
    """A table that is away; `for_ever` or only when a call ends."""

    begins: bool = False

    async def begin(self, request: BeginRequest) -> Verdict:
        if self.begins:
            return await MemoryIdempotency.begin(self, request)
        raise StoreError("away")

    async def settle(self, *_: Any) -> bool:
        raise StoreError("away")


@pytest.mark.parametrize("begins", [True, False])
async def test_only_numbers_need_the_store(*, begins: bool) -> None:
    away, provider = Away(), Provider()
    away.begins = begins
    assert await call(World().chunk(operations=away), WINDOW, provider, "a") == "answer"
    with pytest.raises(StoreError):
        await call(World().chunk(operations=away), NUMBERED, provider, 1, "account-1")
    assert len(provider.keys) == 1 + begins


class NotKept(MemoryIdempotency):
    """A table in which the answers did not fit."""

    async def begin(self, request: BeginRequest) -> Verdict:
        del request
        return Ended(State.DONE, None)


async def test_an_answer_that_is_not_kept_is_paid_for_again_without_an_effect() -> None:
    world, provider = World(), Provider()
    one = world.chunk(operations=NotKept())
    assert await call(one, WINDOW, provider, "a") == "answer"
    assert "idempotency.answer.not_kept" == await code_of(
        call(one, NUMBERED, provider, 1, "account-1")
    )


# ── declarations ──────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("facts", "told"),
    [
        ({"by": TimeWindow(), "scope": ""}, "needs a `scope`"),
        ({"scope": "ann"}, "`scope` needs `by`"),
        ({"by": ByKey(), "scope": "ann"}, "give a TimeWindow or SequenceNumbers"),
        ({"by": TimeWindow(), "scope": "ann", "cache_ttl_s": 3600}, "choose one"),
        (
            {"by": NUMBERED.by, "scope": "a", "fallback": [Fallback(None, call)]},
            "`fallback` exclude each other",
        ),
        (
            {"by": TimeWindow(), "scope": "a", "effect": Effect.NON_IDEMPOTENT},
            "Effect.NON_IDEMPOTENT exclude each other",
        ),
        (
            {"by": TimeWindow(), "scope": "a", "effect": Effect.LOOKUP, "lookup": call},
            "Effect.LOOKUP exclude each other",
        ),
    ],
    ids=[
        "no scope",
        "no by",
        "by key",
        "cache",
        "fallback",
        "non-idempotent",
        "lookup",
    ],
)
def test_a_contradiction_is_refused_when_it_is_declared(
    facts: dict[str, Any], told: str
) -> None:
    with pytest.raises(UsageError, match=told) as caught:
        Dependency("shop", **facts)
    assert caught.value.code == "pipeline.declaration.invalid"
