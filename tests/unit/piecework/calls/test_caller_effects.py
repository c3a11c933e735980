from __future__ import annotations

import asyncio
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from piecework.calls.fleet_limits import FleetLimits
from piecework.dependency import Dependency
from piecework.domain.effect import Effect
from piecework.domain.identity import named_call
from piecework.domain.protocols import ClaimLostError
from piecework.errors import PermanentError, PolicyError, TransientError
from piecework.errors.classify import envelope_of
from piecework.resilience.retry import RetryPolicy
from tests.unit.piecework.fakes import NOW, Diary, Log, caller
from tests.unit.piecework.provider import (
    KEYED,
    ONCE,
    PURE,
    Provider,
    RefusedError,
    answer,
    call,
)
from tests.unit.virtual import run_virtually


async def test_an_effect_is_written_ahead_and_done_after() -> None:
    diary = Diary()
    provider = Provider()

    @named_call("ask")
    async def ask(*, idempotency_key: str) -> str:
        diary.said.append("call")
        return str(await provider.ask(idempotency_key=idempotency_key))

    one = caller(diary)
    assert await answer(one, KEYED, ask) == "answer"
    assert diary.said == ["begin", "call", "finish"]
    assert diary.stages_with_effects() == {"analyse"}


async def test_an_effect_that_was_done_is_not_done_again() -> None:
    diary, provider = Diary(), Provider()
    await call(caller(diary), ONCE, provider)
    later = caller(diary, gen=2)
    assert await call(later, ONCE, provider) == "answer"
    assert len(provider.keys) == 1
    assert later.counts.replayed == 1
    assert diary.stages_with_effects() == {"analyse"}


async def test_a_pure_call_leaves_nothing_behind() -> None:
    diary = Diary()
    await call(caller(diary), PURE, Provider())
    assert diary.stages_with_effects() == set()


async def begun(diary: Diary, dependency: Dependency) -> Provider:
    """Begin an effect and be killed before its end is written."""
    provider = Provider(ClaimLostError())
    with pytest.raises(ClaimLostError):
        await call(caller(diary), dependency, provider)
    return provider


async def test_an_idempotent_provider_is_asked_again_with_the_same_key() -> None:
    diary = Diary()
    provider = await begun(diary, KEYED)
    later = caller(diary, gen=2)
    assert await call(later, KEYED, provider) == "answer"
    assert len(provider.keys) == 2
    assert len(set(provider.keys)) == 1


FORGETFUL = replace(KEYED, timeout=30.0, key_ttl_s=60.0)


async def test_a_provider_that_still_knows_the_key_is_asked_again() -> None:
    diary = Diary(in_doubt_for=59.0)
    provider = await begun(diary, FORGETFUL)
    assert await call(caller(diary), FORGETFUL, provider) == "answer"


async def test_a_provider_that_may_have_forgotten_the_key_is_not_asked_again() -> None:
    diary = Diary(in_doubt_for=60.0)
    provider = await begun(diary, FORGETFUL)
    with pytest.raises(PermanentError) as caught:
        await call(caller(diary), FORGETFUL, provider)
    assert "runtime.effect.unknown" == caught.value.code
    assert "doubt" == diary.said[-1]
    assert 1 == len(provider.keys)


async def test_what_can_be_neither_repeated_nor_looked_up_is_left_to_a_person() -> None:
    diary = Diary()
    provider = await begun(diary, ONCE)
    with pytest.raises(PermanentError) as caught:
        await call(caller(diary), ONCE, provider)
    assert caught.value.code == "runtime.effect.unknown"
    assert len(provider.keys) == 1


def looked_up(*answers: Any) -> tuple[Dependency, list[str]]:
    asked: list[str] = []

    @named_call("find")
    async def find(*args: Any, idempotency_key: str) -> Any:
        asked.append(idempotency_key)
        return answers[min(len(asked), len(answers)) - 1]

    return Dependency("bank", effect=Effect.LOOKUP, lookup=find), asked


async def test_an_effect_is_not_looked_up_before_its_first_try() -> None:
    bank, asked = looked_up("found")
    assert await call(caller(), bank, Provider()) == "answer"
    assert asked == []


async def test_an_effect_in_doubt_that_is_found_is_not_done_again() -> None:
    diary = Diary()
    bank, asked = looked_up("found")
    provider = await begun(diary, bank)
    assert await call(caller(diary), bank, provider) == "found"
    assert asked == provider.keys
    assert diary.said[-1] == "finish"
    assert await call(caller(diary), bank, provider) == "found"


async def test_an_effect_in_doubt_that_is_not_found_is_done() -> None:
    diary = Diary()
    bank, asked = looked_up(None)
    provider = await begun(diary, bank)
    assert await call(caller(diary), bank, provider) == "answer"
    assert len(asked) == 1
    assert provider.keys == [asked[0]] * 2


def test_a_lookup_that_hangs_is_cut_off() -> None:
    async def main() -> None:
        @named_call("find")
        async def find(*_: Any, idempotency_key: str) -> None:
            del idempotency_key
            await asyncio.Event().wait()

        bank = Dependency("bank", effect=Effect.LOOKUP, lookup=find, timeout=3.0)
        diary = Diary()
        provider = await begun(diary, bank)
        with pytest.raises(TimeoutError):
            await call(caller(diary), bank, provider)

    run_virtually(main())


async def test_a_plain_refusal_is_recorded() -> None:
    diary = Diary()
    with pytest.raises(RefusedError):
        await call(caller(diary), KEYED, Provider(RefusedError(422)))
    assert diary.said == ["begin", "refuse"]
    assert diary.effects == {}


@pytest.mark.parametrize("error", [RefusedError(503), RefusedError(409), OSError()])
async def test_a_failure_that_says_nothing_leaves_the_intent(error: Exception) -> None:
    diary = Diary()
    bank = Dependency(
        "bank", effect=Effect.PROVIDER_IDEMPOTENT, retry=RetryPolicy(attempts=1)
    )
    with pytest.raises(type(error)):
        await call(caller(diary), bank, Provider(error))
    assert diary.said == ["begin"]
    assert list(diary.effects.values()) == [None]


def test_a_refusal_after_a_time_out_says_nothing_of_what_the_time_out_hid() -> None:
    async def main() -> None:
        diary = Diary()
        bank, asked = looked_up(None, None, "found")
        provider = Provider(TimeoutError(), RefusedError(400))
        with pytest.raises(RefusedError):
            await call(caller(diary), bank, provider)
        assert "refuse" not in diary.said
        assert await call(caller(diary), bank, provider) == "found"
        assert len(asked) == 3

    run_virtually(main())


def test_an_attempt_that_may_have_done_it_is_looked_up_before_the_next() -> None:
    async def main() -> None:
        diary = Diary()
        bank, asked = looked_up("found")
        provider = Provider(RefusedError(504))
        assert await call(caller(diary), bank, provider) == "found"
        assert 1 == len(provider.keys)
        assert provider.keys == asked
        assert ["begin", "finish"] == diary.said

    run_virtually(main())


def test_not_found_counts_once_no_request_can_be_in_flight() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        diary, moments = Diary(), list[float]()

        @named_call("find")
        async def find(*_: Any, idempotency_key: str) -> None:
            del idempotency_key
            moments.append(loop.time() - begun_at)

        bank = Dependency("bank", effect=Effect.LOOKUP, lookup=find, timeout=9.0)
        provider, begun_at = Provider(ConnectionResetError()), loop.time()
        one = caller(diary)
        one.attempts.sleep = asyncio.sleep
        one.in_flight.sleep = asyncio.sleep
        assert await call(one, bank, provider) == "answer"
        assert 2 == len(moments)
        assert moments[0] < 9.0 <= moments[1]

    run_virtually(main())


def test_a_request_of_an_earlier_claim_may_be_executed_during_ours() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        diary = Diary()
        bank, asked = looked_up(None, None)
        provider = await begun(diary, bank)
        one, acquired_at = caller(diary), loop.time()
        one.in_flight.sleep = asyncio.sleep
        one.in_flight.acquired_at = acquired_at
        one.in_flight.note_earlier_claim(30.0)
        assert await call(one, bank, provider) == "answer"
        assert 30.0 <= loop.time() - acquired_at
        assert 2 == len(asked)

    run_virtually(main())


async def test_a_claim_past_its_deadline_sends_nothing() -> None:
    def late() -> None:
        raise ClaimLostError

    provider, one = Provider(), caller(Diary())
    one.attempts.check_lease = late
    with pytest.raises(ClaimLostError):
        await call(one, KEYED, provider)
    assert [] == provider.keys


async def test_a_refusal_of_an_effect_in_doubt_does_not_take_the_doubt_away() -> None:
    diary = Diary()
    provider = await begun(diary, KEYED)
    provider.errors = [RefusedError(400)]
    with pytest.raises(RefusedError):
        await call(caller(diary), KEYED, provider)
    assert "refuse" not in diary.said


async def test_refusals_all_the_way_are_a_refusal() -> None:
    diary = Diary()
    provider = Provider(RefusedError(429), RefusedError(400))
    with pytest.raises(RefusedError):
        await call(caller(diary), KEYED, provider)
    assert len(provider.keys) == 2
    assert diary.said == ["begin", "refuse"]


async def test_what_cannot_be_repeated_is_tried_once_and_then_in_doubt() -> None:
    diary, provider = Diary(), Provider(TransientError("a"), TransientError("b"))
    with pytest.raises(PermanentError) as caught:
        await call(caller(diary), ONCE, provider)
    assert caught.value.code == "runtime.effect.unknown"
    assert isinstance(caught.value.__cause__, TransientError)
    assert len(provider.keys) == 1
    assert diary.said == ["begin", "doubt"]


async def test_what_cannot_be_repeated_and_was_refused_did_not_happen() -> None:
    diary = Diary()
    with pytest.raises(RefusedError):
        await call(caller(diary), ONCE, Provider(RefusedError(403)))
    assert diary.said == ["begin", "refuse"]


async def test_an_error_of_our_own_code_says_nothing_of_the_provider() -> None:
    diary = Diary()
    with pytest.raises(PolicyError):
        await call(caller(diary), KEYED, Provider(PolicyError("no")))
    assert diary.said == ["begin"]


REFUSED = ConnectionRefusedError()


@pytest.mark.parametrize("dependency", [ONCE, KEYED])
async def test_what_was_not_connected_is_repeated_and_not_in_doubt(
    dependency: Dependency,
) -> None:
    diary, provider = Diary(), Provider(REFUSED, REFUSED)
    one = caller(diary)
    assert "answer" == await call(one, dependency, provider)
    # The worker may die in the delay: nothing may be in doubt then.
    again = ["not sent", "begin"] if dependency is ONCE else []
    assert ["begin", *again, *again, "finish"] == diary.said
    assert (2, 0, 0) == (one.counts.retried, one.counts.repeated, one.counts.failed)


async def test_what_was_never_connected_names_its_dependency() -> None:
    diary, provider = Diary(), Provider(*[REFUSED] * 9)
    with pytest.raises(ConnectionRefusedError) as caught:
        await call(caller(diary), ONCE, provider)
    assert ONCE.retry.attempts == len(provider.keys)
    assert "not sent" == diary.said[-1]
    assert set() == diary.stages_with_effects()
    assert ("fax", "no") == (envelope_of(caught.value).dependency, noted_sent(caught))


async def test_a_chunk_that_alone_cannot_connect_does_not_wait_for_the_others() -> None:
    limits = FleetLimits(lambda: NOW, Random(1), Log())
    one = caller(limits=limits)
    one.counts.breaker_since = NOW - 60.0
    limits.note_answer(ONCE)
    with pytest.raises(ConnectionRefusedError) as caught:
        await call(one, ONCE, Provider(*[REFUSED] * 9))
    assert "" == envelope_of(caught.value).dependency


async def test_an_effect_that_may_have_been_sent_once_is_in_doubt() -> None:
    diary = Diary()
    with pytest.raises(PermanentError) as caught:
        await call(caller(diary), ONCE, Provider(REFUSED, ConnectionResetError()))
    assert "runtime.effect.unknown" == caught.value.code
    assert ["begin", "not sent", "begin", "doubt"] == diary.said


async def test_what_was_not_connected_is_not_looked_up() -> None:
    bank, asked = looked_up("found")
    assert "answer" == await call(caller(), bank, Provider(REFUSED))
    assert [] == asked


def noted_sent(caught: pytest.ExceptionInfo[BaseException]) -> str:
    return str(envelope_of(caught.value).sent)
