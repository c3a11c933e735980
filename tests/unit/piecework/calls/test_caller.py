from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from pydantic import SecretStr

from piecework.calls.call import call_key
from piecework.dependency import Dependency
from piecework.domain.arguments import digest_of
from piecework.domain.identity import named_call
from piecework.domain.keys import provider_key
from piecework.errors import PermanentError, TransientError, UsageError
from piecework.errors.classify import envelope_of
from piecework.resilience.retry import RetryPolicy, RetryTime
from tests.unit.piecework.fakes import SCOPE, Diary, Log, caller
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


async def test_a_call_is_made_with_its_arguments_and_a_key() -> None:
    provider, one = Provider(), caller()
    assert await answer(one, PURE, provider.ask, ["a"], {"b": 1}) == "answer"
    assert provider.args == [("a", {"b": 1})]
    key = call_key(SCOPE, PURE, provider.ask, digest_of(["a"], {"b": 1}))
    assert provider.keys == [provider_key(key, 1)]


async def test_a_call_whose_answer_cannot_be_stored_is_not_sent() -> None:
    provider = Provider()
    ask = provider.ask
    ask.__annotations__["return"] = SecretStr
    with pytest.raises(UsageError, match="it is a secret"):
        await answer(caller(), PURE, ask)
    assert not provider.keys


async def test_a_call_that_was_made_is_remembered() -> None:
    provider, one = Provider(), caller()
    await call(one, PURE, provider, "a")
    provider.answer = "another"
    assert await call(one, PURE, provider, "a") == "answer"
    assert len(provider.keys) == 1
    assert (one.counts.made, one.counts.replayed) == (1, 1)


async def test_a_later_claim_is_not_paid_for_what_an_earlier_one_was() -> None:
    diary, provider = Diary(), Provider()
    await call(caller(diary), PURE, provider, "a")
    later = caller(diary, gen=2)
    assert await call(later, PURE, provider, "a") == "answer"
    assert len(provider.keys) == 1
    assert (later.counts.made, later.counts.replayed) == (0, 1)


async def test_other_arguments_are_another_call() -> None:
    provider, one = Provider(), caller()
    await call(one, PURE, provider, "a")
    await call(one, PURE, provider, "b")
    assert len(set(provider.keys)) == 2


@pytest.mark.parametrize("part", ["tenant", "job", "chunk", "stage"])
def test_another_scope_is_another_call(part: str) -> None:
    changed: Any = {part: 8 if part == "chunk" else "other"}
    of_call = PURE, Provider().ask, digest_of([], {})
    other = replace(SCOPE, **changed)
    assert call_key(SCOPE, *of_call) != call_key(other, *of_call)


def test_another_dependency_or_function_is_another_call() -> None:
    keys = {
        call_key(SCOPE, dependency, function, digest_of([], {}))
        for dependency in (PURE, KEYED)
        for function in (Provider().ask, call)
    }
    assert len(keys) == 4


def test_a_keyword_is_not_a_positional_argument() -> None:
    provider = Provider()
    one = call_key(SCOPE, PURE, provider.ask, digest_of([["a", 1]], {}))
    assert one != call_key(SCOPE, PURE, provider.ask, digest_of([], {"a": 1}))


async def test_a_failure_is_not_remembered() -> None:
    provider, one = Provider(PermanentError("no")), caller()
    with pytest.raises(PermanentError):
        await call(one, PURE, provider)
    assert await call(one, PURE, provider) == "answer"


async def test_a_transient_failure_is_tried_again_with_the_same_key() -> None:
    provider, log = Provider(TransientError("a"), TransientError("b")), Log()
    one = caller(log=log)
    assert await call(one, PURE, provider) == "answer"
    assert len(provider.keys) == 3
    assert len(set(provider.keys)) == 1
    assert (one.counts.made, one.counts.retried) == (1, 2)
    assert log.names().count("call.attempt") == 3


async def test_the_last_failure_is_raised_as_it_is() -> None:
    errors = [TransientError(str(n)) for n in range(3)]
    with pytest.raises(TransientError) as caught:
        await call(caller(), PURE, Provider(*errors))
    assert caught.value is errors[2]


async def test_retries_end_with_the_budget_of_the_run() -> None:
    from tests.unit.piecework.fakes import Highest

    provider = Provider(TransientError("a"))
    one = caller(retry_time=RetryTime(0.5), rng=Highest())
    with pytest.raises(TransientError):
        await call(one, PURE, provider)
    assert len(provider.keys) == 1


@pytest.mark.parametrize(
    ("declared", "seconds"),
    [
        (Dependency("own", timeout=7.0), 7.0),
        (Dependency("tool"), 30.0),
        (Dependency("model", layer="llm"), 60.0),
    ],
)
def test_an_attempt_that_hangs_is_cut_off_and_tried_again(
    declared: Dependency, seconds: float
) -> None:
    async def main() -> None:
        hangs = [True, False]

        @named_call("ask")
        async def ask(*, idempotency_key: str) -> str:
            del idempotency_key
            if hangs.pop(0):
                await asyncio.Event().wait()
            return "answer"

        began = asyncio.get_running_loop().time()
        one = caller()
        slow = replace(declared, retry=RetryPolicy(attempts=2))
        assert await answer(one, slow, ask) == "answer"
        assert asyncio.get_running_loop().time() - began == pytest.approx(seconds)
        assert one.counts.retried == 1

    run_virtually(main())


async def test_the_wait_for_a_slot_is_not_part_of_the_attempts_time() -> None:
    one = caller(slots=asyncio.Semaphore(1))
    most = 0
    flying = 0

    @named_call("ask")
    async def ask(_: int, *, idempotency_key: str) -> None:
        nonlocal most, flying
        del idempotency_key
        flying += 1
        most = max(most, flying)
        await asyncio.sleep(0)
        flying -= 1

    calls = [answer(one, PURE, ask, [n]) for n in range(5)]
    await asyncio.gather(*calls)
    assert most == 1


async def test_every_end_of_a_call_is_a_sign_of_life() -> None:
    signs: list[int] = []
    one = caller(progress=lambda: signs.append(1))
    await call(one, PURE, Provider(TransientError("a")))
    assert len(signs) == 2
    with pytest.raises(PermanentError):
        await call(one, PURE, Provider(PermanentError("no")), "other")
    assert len(signs) == 3


def test_the_providers_key_is_stable_within_an_epoch_and_fresh_in_the_next() -> None:
    assert provider_key("key", 1) == provider_key("key", 1)
    assert provider_key("key", 1) != provider_key("key", 2)
    assert provider_key("key", 1) != provider_key("other", 1)
    assert len(provider_key("key", 1)) == 64


async def test_a_redrive_after_a_refusal_asks_with_a_fresh_key() -> None:
    provider = Provider(RefusedError(422))
    with pytest.raises(RefusedError):
        await call(caller(Diary()), PURE, provider)
    await call(caller(Diary(), gen=2), PURE, provider)
    assert len(set(provider.keys)) == 2


OFTEN = Dependency("model", retry=RetryPolicy(attempts=9))


@pytest.mark.parametrize("dependency", [OFTEN, KEYED])
async def test_what_no_rule_knows_has_two_further_tries(dependency: Dependency) -> None:
    errors = [KeyError("choices") for _ in range(9)]
    provider = Provider(*errors)
    with pytest.raises(KeyError) as caught:
        await call(caller(), dependency, provider)
    assert "runtime.call.unhandled" == envelope_of(caught.value).code
    assert 3 == len(provider.keys)
    assert "answer" == await call(caller(), dependency, Provider(*errors[:2]))


async def test_what_no_rule_knows_is_not_repeated_if_it_may_happen_twice() -> None:
    provider = Provider(KeyError("receipt"))
    with pytest.raises(PermanentError) as caught:
        await call(caller(), ONCE, provider)
    assert ("runtime.effect.unknown", 1) == (caught.value.code, len(provider.keys))


async def test_arguments_that_do_not_fit_are_not_tried_again() -> None:
    one = caller()

    @named_call("ask")
    async def ask() -> str:
        return "answer"

    with pytest.raises(TypeError) as caught:
        await answer(one, OFTEN, ask, ["one too many"])
    assert "runtime.stage.unhandled" == envelope_of(caught.value).code
    assert 0 == one.counts.retried
