from __future__ import annotations

import pickle
from typing import Any

import pytest

from piecework.errors import (
    ErrorEnvelope,
    NotFoundError,
    PermanentError,
    PieceworkError,
    PolicyError,
    SemanticError,
    StageError,
    StateError,
    TransientError,
    UnreachableError,
    UsageError,
    WaitTimeoutError,
)
from piecework.errors.classify import classify
from piecework.errors.codes import REGISTRY, ErrorClass, UnknownCodeError
from piecework.errors.envelope import (
    CAUSE_LIMIT,
    MESSAGE_LIMIT,
    PROVIDER_CODE_LIMIT,
)

STAGE_ERRORS = [
    (TransientError, ErrorClass.TRANSIENT),
    (PermanentError, ErrorClass.PERMANENT),
    (SemanticError, ErrorClass.SEMANTIC),
    (PolicyError, ErrorClass.POLICY),
    (StateError, ErrorClass.STATE),
]


@pytest.mark.parametrize(("kind", "expected"), STAGE_ERRORS)
def test_a_stage_error_is_classed_by_its_type(
    kind: type[StageError], expected: ErrorClass
) -> None:
    assert expected == kind("no luck").error_class
    assert expected == kind("no luck", code="acme.billing.declined").error_class
    assert expected == REGISTRY[kind.code].error_class


def test_a_stage_error_keeps_a_code_of_the_users_own() -> None:
    error = TransientError("the till is closed", code="acme.till.closed")

    assert ("acme.till.closed", "") == (error.code, error.next_step)


def test_a_subclass_may_bring_its_code() -> None:
    class TillClosedError(TransientError):
        code = "acme.till.closed"

    assert TillClosedError("closed").code == "acme.till.closed"


@pytest.mark.parametrize(
    ("code", "stored"),
    [
        ("closed", "app.closed"),
        ("app.closed", "app.closed"),
        ("Acme.Till.Closed", "app.acme.till.closed"),
        ("HTTP 402: no funds!", "app.http_402_no_funds"),
        (402, "app.402"),
        ("x" * 500, f"app.{'x' * 64}"),
        ("", "runtime.stage.transient"),
        ("…", "runtime.stage.transient"),
    ],
)
def test_a_code_in_any_form_keeps_class_and_message(code: Any, stored: str) -> None:
    error = TransientError("busy", code=code)
    found = classify(error)
    assert (error.code, found.code) == (stored, stored)
    assert (found.error_class, found.message) == (ErrorClass.TRANSIENT, "busy")


def test_only_stage_errors_may_leave_the_registry() -> None:
    with pytest.raises(UnknownCodeError):
        UsageError("no luck", code="acme.till.closed")


def test_an_error_of_the_registry_has_its_class_and_its_recovery() -> None:
    error = UsageError("a.md has no text.", code="input.file.empty")
    row = REGISTRY["input.file.empty"]

    assert (row.error_class, row.recovery) == (error.error_class, error.next_step)


def test_a_next_step_of_its_own_replaces_the_recovery() -> None:
    error = NotFoundError("no job j1", next_step="piecework jobs list", job="j1")

    assert error.next_step == "piecework jobs list"
    assert error.facts == {"job": "j1"}
    assert str(error) == "no job j1"


@pytest.mark.parametrize(
    ("kind", "exit_code"),
    [
        (PieceworkError, 1),
        (UsageError, 2),
        (NotFoundError, 3),
        (UnreachableError, 6),
        (WaitTimeoutError, 7),
    ],
)
def test_errors_that_a_user_meets_have_their_exit_code(
    kind: type[PieceworkError], exit_code: int
) -> None:
    assert exit_code == kind("no luck").exit_code


def test_an_error_survives_the_way_between_processes() -> None:
    error = TransientError("later", code="acme.till.closed", retry_after=2.0, till=3)
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301  our own bytes

    assert vars(error) == vars(copy)


def envelope(message: str = "no luck", **fields: object) -> ErrorEnvelope:
    return ErrorEnvelope.model_validate(
        {
            "code": "tool.http.503_unavailable",
            "error_class": "transient",
            "message": message,
            **fields,
        }
    )


@pytest.mark.parametrize("error_class", list(ErrorClass))
def test_only_transient_envelopes_are_retryable(error_class: ErrorClass) -> None:
    expected = error_class is ErrorClass.TRANSIENT

    assert expected == envelope(error_class=error_class).retryable


def test_a_long_message_is_cut_and_shows_that_it_was() -> None:
    message = envelope("é " * MESSAGE_LIMIT).message

    assert (MESSAGE_LIMIT, "…") == (len(message), message[-1])


def test_a_message_is_redacted_before_it_is_cut() -> None:
    padding = "x " * ((MESSAGE_LIMIT - 12) // 2)

    assert "AKIA" not in envelope(f"{padding}AKIAIOSFODNN7EXAMPLE").message


def test_a_cause_is_clean_and_short() -> None:
    padding = "x " * ((CAUSE_LIMIT - 12) // 2)
    kept = envelope(cause=f"{padding}AKIAIOSFODNN7EXAMPLE").cause

    assert "AKIA" not in kept
    assert (CAUSE_LIMIT, "…") == (len(kept), kept[-1])


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("rate_limit_error", "rate_limit_error"),
        ("AWS.SimpleQueueService.NonExistentQueue",) * 2,
        ("AKIAIOSFODNN7EXAMPLE", "[redacted aws key]"),
        ("invalid prompt: Dear Ann", None),
        ("x" * (PROVIDER_CODE_LIMIT + 1), None),
    ],
)
def test_a_providers_code_is_one_word_or_none(said: str, kept: str | None) -> None:
    assert kept == envelope(provider_code=said).provider_code


def test_an_envelope_reads_back_from_its_own_json() -> None:
    full = envelope(http_status=503, stage="score", attempt=2, retry_after=1.5)

    assert full == ErrorEnvelope.model_validate_json(full.model_dump_json())


def test_a_small_error_makes_a_small_envelope() -> None:
    dump = envelope().model_dump(mode="json", exclude_defaults=True)

    assert dump == {
        "code": "tool.http.503_unavailable",
        "error_class": "transient",
        "message": "no luck",
    }


def test_an_envelope_of_a_newer_version_is_read_without_its_news() -> None:
    assert envelope() == envelope(invented_later=True)
