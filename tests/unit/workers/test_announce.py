"""What the log says of a claim that has ended."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from piecework.outcome import Cancelled, Compensation, Completed, Dead, Parked
from piecework.telemetry import BOUND, EVENTS
from tests.unit.piecework.fakes import Log, envelope
from tests.unit.piecework.store.tables import claim
from workers.announce import announce
from workers.undertake import Released, RunResult

FAILURE = envelope(stage="first")
DIED = {
    "chunk": 3,
    "error_code": FAILURE.code,
    "stage": "first",
    "attempts": 2,
    "compensation": "compensated",
    "envelope": {
        "code": FAILURE.code,
        "error_class": "permanent",
        "message": "it failed",
        "stage": "first",
    },
}


def said(outcome: Any, *, undone: Any = (), certificate: Any = None) -> dict[str, Any]:
    """Return what is said after `chunk.settled`, by event."""
    task: Any = SimpleNamespace(
        claim=claim(attempts=2),
        checkpoints=SimpleNamespace(undone=dict(undone)),
        certificate=certificate,
        ctx=SimpleNamespace(
            caller=SimpleNamespace(
                counts=SimpleNamespace(made=1, replayed=2, cached=0, retried=3)
            )
        ),
    )
    log: Any = Log()
    announce(RunResult(task, outcome), 1.5, log)
    (first, facts), *rest = log.said
    assert (first, facts["calls"]) == ("chunk.settled", 1)
    assert facts["duration_ms"] == 1500
    assert all(fields.keys() <= EVENTS[name].fields | BOUND for name, fields in rest)
    return dict(rest)


def test_a_result_is_settled_and_no_more() -> None:
    assert said(Completed("1")) == {}
    assert said(Cancelled("first")) == {}


def test_what_is_put_back_says_why_and_for_how_long() -> None:
    parked = said(Parked(FAILURE, 2.5))["chunk.released"]
    assert parked == {
        "chunk": 3,
        "reason": "parked",
        "error_code": FAILURE.code,
        "delay_s": 2.5,
    }
    handed = said(Released(), undone={"first": None})
    assert list(handed) == ["chunk.released"]
    assert handed["chunk.released"]["reason"] == "handed back"


def test_a_death_says_what_of_and_what_was_undone() -> None:
    undone = {"first": None, "second": FAILURE}
    done = said(Dead(FAILURE, Compensation.DONE), undone=undone)
    assert done == {
        "chunk.dead": DIED,
        "chunk.compensated": {"stages": ["first", "second"], "failed": ["second"]},
    }


@pytest.mark.parametrize("outcome", [Completed("1"), Dead(FAILURE, Compensation.DONE)])
def test_the_end_of_a_join_is_that_of_its_job(outcome: Any) -> None:
    certificate = SimpleNamespace(
        status=SimpleNamespace(value="PARTIAL"), chunks=3, outcomes={"SUCCEEDED": 2}
    )
    assert said(outcome, certificate=certificate)["job.finished"] == {
        "status": "PARTIAL",
        "chunks": 3,
        "outcomes": {"SUCCEEDED": 2},
    }
