from __future__ import annotations

from typing import Any

import pytest

from piecework.dependency import Dependency, Fallback, effect_unknown_error
from piecework.domain.effect import Effect
from piecework.errors import UsageError
from piecework.resilience.retry import RetryPolicy, not_executed
from tests.unit.piecework.fakes import envelope


async def find(*_: Any, idempotency_key: str) -> None: ...


def test_a_dependency_is_pure_and_retried_unless_it_says_otherwise() -> None:
    model = Dependency("model")
    assert model.effect is Effect.PURE
    assert model.retry == RetryPolicy()


def test_an_effect_that_is_looked_up_needs_a_lookup() -> None:
    with pytest.raises(UsageError, match="go together") as caught:
        Dependency("bank", effect=Effect.LOOKUP)
    assert caught.value.code == "pipeline.declaration.invalid"


@pytest.mark.parametrize("effect", [e for e in Effect if e is not Effect.LOOKUP])
def test_a_lookup_without_its_effect_is_refused(effect: Effect) -> None:
    with pytest.raises(UsageError, match="go together"):
        Dependency("bank", effect=effect, lookup=find)


@pytest.mark.parametrize("status", [400, 401, 404, 407, 410, 422, 429, 499])
def test_a_refusal_says_that_it_was_not_done(status: int) -> None:
    assert not_executed(envelope(http_status=status)) is True


@pytest.mark.parametrize("status", [None, 200, 302, 399, 408, 409, 500, 503])
def test_a_time_out_a_conflict_and_a_server_error_say_nothing(
    status: int | None,
) -> None:
    assert not_executed(envelope(http_status=status)) is False


def test_the_error_of_an_unknown_effect_names_the_call_and_has_its_own_code() -> None:
    error = effect_unknown_error(Dependency("bank", effect=Effect.NON_IDEMPOTENT), find)
    assert error.message == "It is unknown whether find of bank took place."
    assert error.code == "runtime.effect.unknown"


SMALL = Dependency("small")
SHOP = Dependency("shop", effect=Effect.PROVIDER_IDEMPOTENT)


def refused(**facts: Any) -> str:
    with pytest.raises(UsageError) as caught:
        Dependency("large", **facts)
    assert caught.value.code == "pipeline.declaration.invalid"
    return caught.value.message


def test_a_chain_of_one_name_twice_is_refused() -> None:
    twice = [Fallback(SMALL, find), Fallback(SMALL, refused)]
    itself = [Fallback(Dependency("large"), find)]
    assert "two members of its fallback chain have the same name" in refused(
        fallback=twice
    )
    assert "two members of its fallback chain have the same name" in refused(
        fallback=itself
    )


@pytest.mark.parametrize("chain", [SMALL, [SMALL], 5])
def test_a_fallback_has_its_function_beside_it(chain: Any) -> None:
    said = refused(fallback=chain)
    assert "`fallback` is a list of Fallback(dependency, function)" in said


def test_a_fallback_with_fallbacks_of_its_own_is_refused() -> None:
    middle = Dependency("middle", fallback=[Fallback(SMALL, find)])
    said = refused(fallback=[Fallback(middle, find)])
    assert "its fallback 'middle' has fallbacks of its own" in said


def test_a_price_that_is_a_number_is_refused_before_it_fails_each_call() -> None:
    assert "estimate_usd is 0.01; give a function" in refused(estimate_usd=0.01)


def test_a_pure_dependency_does_not_fall_back_to_one_with_an_effect() -> None:
    said = "some of its fallbacks have an effect and some have none"
    assert said in refused(fallback=[Fallback(SHOP, find)])


@pytest.mark.parametrize("other", [Fallback(None, find), Fallback(SMALL, find)])
def test_a_dependency_with_an_effect_does_not_fall_back_to_a_pure_one(
    other: Fallback,
) -> None:
    said = "some of its fallbacks have an effect and some have none"
    assert said in refused(effect=Effect.NON_IDEMPOTENT, fallback=[other])


def test_effects_of_different_kinds_make_a_chain() -> None:
    once = Dependency(
        "fax", effect=Effect.NON_IDEMPOTENT, fallback=[Fallback(SHOP, find)]
    )
    assert 1 == len(once.fallback)


@pytest.mark.parametrize("name", [" ", "tenant:acme"])
def test_a_name_that_would_be_no_dependency_among_the_limits_is_refused(
    name: str,
) -> None:
    with pytest.raises(UsageError):
        Dependency(name)


def test_key_ttl_s_is_only_for_providers_that_receive_a_key() -> None:
    kept = {"effect": Effect.PROVIDER_IDEMPOTENT, "timeout": 30.0}
    assert "go together" in refused(key_ttl_s=3600)
    assert "must be longer than `timeout`" in refused(key_ttl_s=30, **kept)
    assert Dependency("shop", key_ttl_s=31, **kept).may_have_forgotten(31)
    assert not Dependency("shop", key_ttl_s=31, **kept).may_have_forgotten(30.9)
    assert not Dependency("shop", **kept).may_have_forgotten(10**9)


@pytest.mark.parametrize("word", ["everything", "", "ALL", True])
def test_a_word_that_keeps_no_known_calls_is_refused(word: Any) -> None:
    assert "write failed, all, none or None" in refused(record_calls=word)
