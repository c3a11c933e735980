"""The events that are emitted when a claim has ended."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from piecework.domain.outcome import (
    Cancelled,
    CompensationResult,
    DeadLettered,
    Deferred,
    Released,
    Retry,
    Succeeded,
)
from piecework.telemetry import BOUND, EVENTS
from piecework_worker.settle import emit_end
from tests.unit.piecework.fakes import Log, envelope
from tests.unit.piecework.store.tables import claim

FAILURE = envelope(stage="first")
#: Fields of every event that ends a claim.
COMMON = {"duration_ms": 1500, "calls": 1, "replayed": 2, "cached": 0, "retried": 3}
DIED = {
    "chunk": 3,
    "error_code": FAILURE.code,
    "stage": "first",
    "attempts": 2,
    "compensation": "COMPENSATED",
    "raised": "",
    "cause": "",
    "recovery": "",
    "envelope": {
        "code": FAILURE.code,
        "error_class": "permanent",
        "message": "it failed",
        "stage": "first",
    },
}


def said(
    outcome: Any, *, compensated: Any = (), certificate: Any = None
) -> dict[str, Any]:
    """Return the emitted fields by event; the common fields are checked and removed."""
    log: Any = Log()
    run: Any = SimpleNamespace(
        claim=claim(attempts=2),
        outcome=outcome,
        pipeline=SimpleNamespace(codes=()),
        checkpoints=SimpleNamespace(compensated=dict(compensated)),
        ledger=SimpleNamespace(in_doubt=0),
        certificate=certificate,
        ctx=SimpleNamespace(
            log=log,
            caller=SimpleNamespace(
                counts=SimpleNamespace(made=1, replayed=2, cached=0, retried=3)
            ),
        ),
    )
    emit_end(run, 1.5)
    assert all(fields.keys() <= EVENTS[n].fields | BOUND for n, fields in log.said)
    facts = log.said[0][1]
    common = {name: facts.pop(name) for name in COMMON}
    assert common == COMMON
    return dict(log.said)


def test_a_result_and_a_cancel_have_only_the_common_fields() -> None:
    assert said(Succeeded("1")) == {"chunk.succeeded": {"chunk": 3}}
    assert said(Cancelled("first")) == {"chunk.cancelled": {"chunk": 3}}


def test_a_waiting_chunk_has_its_error_and_its_delay() -> None:
    facts = {"chunk": 3, "error_code": FAILURE.code, "delay_s": 2.5}
    where = {"raised": "", "traceback": ""}
    assert said(Retry(FAILURE, 2.5)) == {"chunk.retry_scheduled": facts | where}
    facts["blocked_on"] = "model"
    assert said(Deferred(FAILURE, 2.5, "model")) == {"chunk.deferred": facts}


def test_a_released_chunk_is_not_reported_as_compensated() -> None:
    assert said(Released(), compensated={"first": None}) == {
        "chunk.released": {"chunk": 3}
    }


def test_a_dead_letter_names_its_error_and_the_compensated_stages() -> None:
    undone = {"first": None, "second": FAILURE}
    done = said(
        DeadLettered(FAILURE, CompensationResult.COMPENSATED), compensated=undone
    )
    assert done == {
        "chunk.dead_lettered": DIED,
        "chunk.compensated": {"stages": ["first", "second"], "failed": ["second"]},
    }


@pytest.mark.parametrize(
    "outcome", [Succeeded("1"), DeadLettered(FAILURE, CompensationResult.COMPENSATED)]
)
def test_the_end_of_a_join_is_that_of_its_job(outcome: Any) -> None:
    certificate = SimpleNamespace(
        status=SimpleNamespace(value="PARTIAL"), chunks=3, outcomes={"SUCCEEDED": 2}
    )
    assert said(outcome, certificate=certificate)["job.finished"] == {
        "status": "PARTIAL",
        "chunks": 3,
        "outcomes": {"SUCCEEDED": 2},
    }
