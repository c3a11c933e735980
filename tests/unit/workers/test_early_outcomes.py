"""A claim ends without its stages: recovered, or unreadable."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from piecework.domain.outcome import (
    CompensationResult,
    DeadLettered,
    Paused,
    Retry,
)
from piecework.domain.rows import ErrorRow
from piecework.errors import ErrorEnvelope, PermanentError
from piecework_worker.early_outcomes import (
    last_failure,
    outcome_of_interrupt,
    outcome_of_load_failure,
    with_pivot_untried,
)
from piecework_worker.lease import InterruptReason
from tests.unit.piecework.fakes import envelope
from tests.unit.workers.runs import SETTINGS, chunk_run


def ended(gen: int = 1, attempt: int = 3, **facts: Any) -> dict[str, Any]:
    error = envelope(stage="first").model_dump_json()
    return ErrorRow({"gen": gen, "attempt": attempt, "error": error, **facts})


def lost(failure: ErrorEnvelope) -> bool:
    return failure.code == "runtime.worker.lost"


# ── what ended the last attempt ──────────────────────────────────────────────


def test_what_is_on_record_ended_the_last_attempt() -> None:
    failure = last_failure(chunk_run(error_history=[ended(attempt=2), ended()]))
    assert (failure.code, failure.stage) == ("runtime.stage.permanent", "first")


def test_an_attempt_without_a_record_ended_with_its_worker() -> None:
    failure = last_failure(chunk_run(error_history=[ended(attempt=2)]))
    assert lost(failure)
    assert (failure.stage, failure.attempt) == ("second", 3)
    assert lost(last_failure(chunk_run()))
    assert lost(last_failure(chunk_run(error_history=[ended(deferred=True)])))


def test_an_error_of_an_earlier_generation_is_not_of_this_attempt() -> None:
    assert lost(last_failure(chunk_run(gen=2, error_history=[ended(gen=1)])))
    assert not lost(
        last_failure(chunk_run(gen=2, error_history=[ended(gen=1), ended(gen=2)]))
    )


# ── a pause ──────────────────────────────────────────────────────────────────


def test_a_pause_before_any_stage_does_not_say_that_the_pivot_is_untried() -> None:
    one = chunk_run()
    stages = [one.pipeline.stages[0], replace(one.pipeline.stages[1], pivot=True)]
    one.pipeline = replace(one.pipeline, stages=stages)
    one.lease.reason = InterruptReason.PAUSED
    one.outcome = outcome_of_interrupt(one, SETTINGS)
    assert with_pivot_untried(one) == Paused(pivot_untried=False)


# ── unreadable state ─────────────────────────────────────────────────────────


CORRUPT = PermanentError("not what was submitted", code="runtime.payload.corrupt")


@pytest.mark.parametrize(
    ("facts", "compensation"),
    [
        ({"fence": 1}, CompensationResult.NOT_NEEDED),
        ({"reached_stage": "first"}, CompensationResult.ABANDONED),
        ({}, CompensationResult.ABANDONED),
    ],
)
def test_an_unreadable_chunk_is_dead_lettered_as_abandoned_if_started(
    facts: Any, compensation: CompensationResult
) -> None:
    outcome = outcome_of_load_failure(chunk_run(**facts), CORRUPT, SETTINGS)
    assert isinstance(outcome, DeadLettered)
    assert outcome.compensation is compensation
    assert (outcome.uncompensated_stages == ("first",)) is (not facts.get("fence"))
    assert outcome.failure.code == "runtime.payload.corrupt"


@pytest.mark.parametrize(("attempt", "kind"), [(2, Retry), (3, DeadLettered)])
def test_state_that_cannot_be_read_now_is_retried(attempt: int, kind: Any) -> None:
    one = chunk_run()
    one.ctx.attempt = attempt
    outcome = outcome_of_load_failure(one, ConnectionResetError(), SETTINGS)
    assert isinstance(outcome, kind)
