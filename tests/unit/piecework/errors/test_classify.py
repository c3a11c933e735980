from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from piecework.errors import (
    NotFoundError,
    PermanentError,
    PolicyError,
    RemoteError,
    TransientError,
)
from piecework.errors.classify import classify


def closed(seconds: float | None = None) -> TransientError:
    return TransientError("closed", code="acme.till.closed", retry_after=seconds)


def test_our_own_error_brings_code_class_and_figures() -> None:
    error = TransientError(
        "The till is closed.",
        code="acme.till.closed",
        retry_after=3.0,
        http_status=503,
        provider_code="Closed",
    )

    assert classify(error).model_dump(exclude_defaults=True) == {
        "code": "acme.till.closed",
        "error_class": "transient",
        "message": "The till is closed.",
        "http_status": 503,
        "provider_code": "Closed",
        "cause": "TransientError (acme.till.closed)",
        "retry_after": 3.0,
    }


def test_an_error_of_the_registry_keeps_its_code() -> None:
    envelope = classify(NotFoundError("no", code="job.chunk.not_found"))

    assert ("job.chunk.not_found", "permanent") == (envelope.code, envelope.error_class)


def test_facts_of_another_type_are_not_figures() -> None:
    envelope = classify(PermanentError("no", http_status="x", provider_code=1))

    assert (None, None) == (envelope.http_status, envelope.provider_code)


class Finding(BaseModel):
    severity: int
    clause: str


def invalid(value: Any = None) -> ValidationError:
    with pytest.raises(ValidationError) as caught:
        Finding.model_validate(value or {"severity": "the client's secret"})
    return caught.value


def test_what_does_not_validate_is_the_models_or_the_stages_fault() -> None:
    assert ("llm.output.invalid", "semantic") == (
        classify(invalid(), layer="llm").code,
        classify(invalid(), layer="llm").error_class,
    )
    assert classify(invalid()).code == "runtime.value.invalid"
    assert classify(invalid()).error_class == "permanent"


def test_a_validation_message_names_fields_and_not_values() -> None:
    assert classify(invalid()).message == (
        "Finding does not validate: severity (int_parsing), clause (missing)"
    )


def test_where_it_happened_goes_into_the_envelope() -> None:
    envelope = classify(
        TimeoutError("late"),
        stage="score",
        attempt=2,
        at="2026-11-21T00:00:00Z",
        correlation_id="c-1",
    )

    assert ("score", 2, "2026-11-21T00:00:00Z", "c-1") == (
        envelope.stage,
        envelope.attempt,
        envelope.at,
        envelope.correlation_id,
    )


def chained(outer: Exception, inner: Exception, *, explicit: bool) -> Exception:
    try:
        try:
            raise inner
        except type(inner) as caught:
            if explicit:
                raise outer from caught
            raise outer  # noqa: B904  the other case
    except type(outer) as caught:
        return caught


def test_a_wrapper_takes_the_class_of_what_it_was_raised_from() -> None:
    error = chained(RuntimeError("call failed"), ConnectionResetError(), explicit=True)
    envelope = classify(error)

    assert envelope.code == "tool.connection.failed"
    assert (
        "RuntimeError <- ConnectionResetError (tool.connection.failed)"
        == envelope.cause
    )
    assert envelope.message == "call failed"


def test_an_error_while_handling_another_is_an_error_of_its_own() -> None:
    error = chained(KeyError("bug"), ConnectionResetError(), explicit=False)
    envelope = classify(error)

    assert envelope.code == "runtime.stage.unhandled"
    assert "KeyError <- ConnectionResetError (tool.connection.failed)" == envelope.cause


def test_a_class_given_by_the_stage_outweighs_its_cause() -> None:
    error = chained(PermanentError("no use"), ConnectionResetError(), explicit=True)

    assert classify(error).code == "runtime.stage.permanent"


def test_a_circle_of_causes_comes_to_an_end() -> None:
    first, second = ValueError("a"), KeyError("b")
    first.__cause__, second.__cause__ = second, first

    assert classify(first).code == "runtime.stage.unhandled"


@pytest.mark.parametrize(
    ("errors", "code", "retry_after"),
    [
        (
            [TimeoutError(), closed(9.0)],
            "acme.till.closed",
            9.0,
        ),
        (
            [ConnectionResetError(), PermanentError("no")],
            "runtime.stage.permanent",
            None,
        ),
        ([PolicyError("no"), ConnectionResetError()], "runtime.stage.policy", None),
        ([ConnectionResetError(), KeyError("bug")], "runtime.stage.unhandled", None),
        (
            [ExceptionGroup("inner", [ConnectionResetError()]), TransientError("x")],
            "tool.connection.failed",
            None,
        ),
    ],
)
def test_of_a_groups_errors_the_one_that_forbids_most_decides(
    errors: list[Exception], code: str, retry_after: float | None
) -> None:
    envelope = classify(ExceptionGroup("tasks", errors))

    assert (code, retry_after) == (envelope.code, envelope.retry_after)


class BrokenError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    ("error", "message"), [(BrokenError(), "BrokenError"), (KeyError(), "KeyError")]
)
def test_an_error_without_words_is_named_by_its_type(
    error: Exception, message: str
) -> None:
    assert message == classify(error).message


def test_an_error_of_another_process_is_what_it_was_there() -> None:
    told = classify(closed(3.0), stage="there", attempt=9)
    known = classify(RemoteError(told), stage="here", attempt=1, at="now")

    assert told.model_copy(update={"stage": "here", "attempt": 1, "at": "now"}) == known
