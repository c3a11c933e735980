from __future__ import annotations

from typing import Any

import pytest

from piecework.dependency import Dependency, Effect, in_doubt, plainly_refused
from piecework.errors import UsageError
from piecework.retry import RetryPolicy
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


def test_a_lookup_with_its_effect_is_taken() -> None:
    assert Dependency("bank", effect=Effect.LOOKUP, lookup=find).lookup is find


@pytest.mark.parametrize("status", [400, 401, 404, 407, 410, 422, 429, 499])
def test_a_refusal_says_that_it_was_not_done(status: int) -> None:
    assert plainly_refused(envelope(http_status=status)) is True


@pytest.mark.parametrize("status", [None, 200, 302, 399, 408, 409, 500, 503])
def test_a_time_out_a_conflict_and_a_server_error_say_nothing(
    status: int | None,
) -> None:
    assert plainly_refused(envelope(http_status=status)) is False


def test_a_doubt_names_the_call_and_has_its_own_code() -> None:
    error = in_doubt(Dependency("bank", effect=Effect.NON_IDEMPOTENT), find)
    assert error.message == "Nobody can tell whether find of bank took place."
    assert error.code == "runtime.effect.unknown"
