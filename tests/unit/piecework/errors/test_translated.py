"""What a dependency says of its own errors, and what is known of them afterwards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from piecework import Dependency, Effect, PermanentError, TransientError, envelope_of
from piecework.errors import RemoteError, StageError
from piecework.errors.classify import classify, mark
from piecework.errors.envelope import MESSAGE_LIMIT
from piecework.resilience.retry import RetryPolicy
from tests.unit.piecework.fakes import NOW, Diary, caller
from tests.unit.piecework.provider import Provider, call


class TillError(Exception):
    """A library's error: it knows neither status nor class."""

    def __init__(self, reason: str, wait: float | None = None) -> None:
        super().__init__(f"till says {reason}")
        self.reason, self.wait = reason, wait


def meaning(error: BaseException) -> StageError | None:
    if isinstance(error, TillError) and error.reason == "closed":
        return TransientError("closed", code="acme.till.closed", retry_after=error.wait)
    if isinstance(error, TillError) and error.reason == "gone":
        return PermanentError("gone", code="acme.till.gone", http_status=410)
    return None


TILL = Dependency("till", classify=meaning, retry=RetryPolicy(attempts=3, base=0.01))


async def test_what_the_dependency_calls_transient_is_tried_again() -> None:
    provider = Provider(TillError("closed"), TillError("closed"))

    assert "answer" == await call(caller(), TILL, provider)
    assert 3 == len(provider.keys)


async def test_what_the_dependency_calls_permanent_is_not() -> None:
    provider = Provider(TillError("gone"), TillError("gone"))

    with pytest.raises(TillError) as caught:
        await call(caller(), TILL, provider)

    assert 1 == len(provider.keys)
    found = envelope_of(caught.value)
    assert found.raised.startswith("TillError at tests/unit/piecework/provider.py:")
    location = {"exception", "location", "traceback"}
    assert found.model_dump(exclude_defaults=True, exclude=location) == {
        "code": "acme.till.gone",
        "error_class": "permanent",
        "message": "gone",
        "http_status": 410,
        "attempt": 1,
        "stage": "analyse",
        "cause": "TillError (acme.till.gone)",
        "at": "2023-11-14T22:13:20.000Z",
        "correlation_id": "job/7",
    }


async def test_an_envelope_has_the_last_attempt_of_a_call() -> None:
    provider = Provider(*(TillError("closed", wait=0.5) for _ in range(9)))

    with pytest.raises(TillError) as caught:
        await call(caller(), TILL, provider)

    told = envelope_of(caught.value)
    assert (3, 0.5) == (told.attempt, told.retry_after)


async def test_what_the_dependency_does_not_know_is_judged_by_its_shape() -> None:
    provider = Provider(ConnectionResetError())

    assert "answer" == await call(caller(), TILL, provider)


@pytest.mark.parametrize(("reason", "said"), [("gone", "refuse"), ("closed", "doubt")])
async def test_a_status_that_the_dependency_gives_says_whether_it_happened(
    reason: str, said: str
) -> None:
    diary = Diary()
    fax = Dependency("fax", effect=Effect.NON_IDEMPOTENT, classify=meaning)

    with pytest.raises((TillError, PermanentError)):
        await call(caller(diary), fax, Provider(TillError(reason)))

    assert ["begin", said] == diary.said


def test_an_error_in_a_wrapper_is_found() -> None:
    error = RuntimeError("call failed")
    error.__cause__ = TillError("closed")
    told = classify(error, translate=meaning)

    assert ("acme.till.closed", "call failed") == (told.code, told.message)
    assert told.cause == "RuntimeError <- TillError (acme.till.closed)"


def raises(_: BaseException) -> Any:
    raise KeyError("bug")


def says_yes(_: BaseException) -> Any:
    return True


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (raises, "The dependency's `classify` raised KeyError at "),
        (says_yes, "The dependency's `classify` returned a bool."),
    ],
)
def test_a_faulty_classifier_costs_a_retry_and_not_the_error(
    wrong: Callable[[BaseException], Any], message: str
) -> None:
    told = classify(TimeoutError("late"), translate=wrong)

    assert told.code == "runtime.classifier.failed"
    assert told.message.startswith(message)
    assert ("permanent", "TimeoutError (runtime.classifier.failed)") == (
        told.error_class,
        told.cause,
    )


async def test_the_layer_is_known_in_a_wrapper_too() -> None:
    model = Dependency("model", layer="llm", retry=RetryPolicy(attempts=1))
    with pytest.raises(TimeoutError) as caught:
        await call(caller(), model, Provider(TimeoutError("late")))
    wrapper = ValueError("no analysis")
    wrapper.__cause__ = caught.value

    assert classify(wrapper).code == "llm.connection.timeout"


@dataclass(frozen=True)
class FrozenError(Exception):
    wait: float


def test_an_error_that_cannot_be_changed_is_noted_all_the_same() -> None:
    error, known = FrozenError(1.0), classify(TimeoutError(), attempt=4)

    mark(error, known)

    assert known == envelope_of(error)


def test_an_error_outside_of_a_call_is_classified_by_its_type() -> None:
    assert envelope_of(TimeoutError()).code == "tool.connection.timeout"


def test_an_error_of_another_process_brings_its_envelope() -> None:
    known = classify(TimeoutError("late"), stage="there", now=NOW)

    assert known == envelope_of(RemoteError(known))


def test_a_providers_code_and_the_chain_are_short_and_clean() -> None:
    class RefusedError(Exception):
        status_code = 400
        headers: dict[str, str] = {}  # noqa: RUF012  as a library has it

    error = RefusedError()
    error.code = "AKIAIOSFODNN7EXAMPLE"  # type: ignore[attr-defined]
    long = type("Long" * MESSAGE_LIMIT, (Exception,), {})()

    assert classify(error).provider_code == "[redacted aws key]"
    assert len(classify(long).cause) == 256
