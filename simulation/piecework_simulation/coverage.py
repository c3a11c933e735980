"""Name the transitions of the state machines; `docs/simulate.md` lists them."""

from __future__ import annotations

from typing import Any

from piecework.domain.outcome import ANSWER, BATCH, CHILD_JOB, PAUSE, TIMER
from piecework.domain.question import QuestionState
from piecework.domain.states import ChunkStatus as C
from piecework.domain.states import JobStatus as J

Item = dict[str, Any]

OPEN = {C.PENDING, C.WAITING}
ENDED = {C.SUCCEEDED, C.DEAD, C.CANCELLED}
CANCELLABLE = {J.SUBMITTING, J.RUNNING, J.PAUSED, J.REOPENING}
OUTCOMES = {J.SUCCEEDED, J.PARTIAL, J.FAILED}
#: The counters of deferred claims: for a dependency, and for AWS.
DEFERRALS = ("deferrals", "outages", "exhaustions")
#: The transitions that a full run of the simulator must have taken.
CHUNK_TRANSITIONS = [f"C{n}" for n in range(17)]
JOB_TRANSITIONS = [f"J{n}" for n in range(14)]
#: Those of a question: its new states, and the events of its steps.
QUESTION_TRANSITIONS = {
    QuestionState.OPEN: "Q0",
    QuestionState.ANSWERED: "Q1",
    QuestionState.DEFAULTED: "Q2",
    QuestionState.EXPIRED: "Q3",
    "reminded": "Q5",
    "escalated": "Q6",
}
#: It is asked again, in the next generation of its chunk.
ASKED_AGAIN = "Q4"
#: Those between a child and its parent.
CHILD_TRANSITIONS = {
    "started": "H0",
    "woken": "H1",
    "cancelled": "H2",
    "paused": "H3",
    "resumed": "H4",
}
TRANSITIONS = [
    *CHUNK_TRANSITIONS,
    *JOB_TRANSITIONS,
    *sorted([*QUESTION_TRANSITIONS.values(), ASKED_AGAIN]),
    *CHILD_TRANSITIONS.values(),
]


def chunk_transitions(old: Item | None, new: Item) -> list[str]:
    """Return the transitions of a chunk write; empty if it is not a valid one."""
    if old is None:
        return ["C0"]
    before, after = old["status"], new["status"]
    if new["gen"] > old["gen"]:
        return ["C13" if new["chunk"] >= 0 else "C0"]
    if new["fence"] > old["fence"]:
        recovered = new.get("recoveries", 0) > old.get("recoveries", 0)
        return ["C2" if new.get("takeovers") else "C1", *(["C9"] if recovered else [])]
    if before == after:
        return unchanged_transitions(old, new)
    return (
        running_transitions(old, new)
        if before == C.RUNNING
        else unclaimed_transitions(before, new)
    )


def count_returns(old: Item, new: Item) -> int:
    """Return how often a write returned a chunk: as a release or as a deferral."""
    names = ("releases", *DEFERRALS)
    return sum(int(new.get(name, 0)) - int(old.get(name, 0)) for name in names)


def running_transitions(old: Item, new: Item) -> list[str]:
    """Return the transitions of a chunk that a worker had claimed."""
    after = new["status"]
    deferred = any(new.get(name, 0) > old.get(name, 0) for name in DEFERRALS)
    if after == C.WAITING and deferred:
        return ["C14"]
    if after == C.WAITING and new.get("blocked_on") == PAUSE:
        return ["C15"]
    if after == C.WAITING and new.get("blocked_on") in {
        TIMER,
        ANSWER,
        BATCH,
        CHILD_JOB,
    }:
        return ["C16"]
    given_back = after == C.WAITING and "claim_token" not in new
    back = ["J7"] if after in ENDED and "compensation" in new else []
    transitions = {
        C.SUCCEEDED: "C5",
        C.WAITING: "C8" if given_back else "C6",
        C.DEAD: "C7",
        C.CANCELLED: "C12",
    }
    return [transitions[after], *back] if after in transitions else []


def unclaimed_transitions(before: str, new: Item) -> list[str]:
    """Return the transitions of a chunk that was not claimed."""
    if before == C.PENDING and new["status"] == C.WAITING and "direction" in new:
        return ["J6"]
    return ["C10"] if before in OPEN and new["status"] == C.CANCELLED else []


def unchanged_transitions(old: Item, new: Item) -> list[str]:
    """Return the transitions that keep the chunk's status."""
    if new.get("direction") and not old.get("direction"):
        return ["J6"]
    if new.get("cancel_requested_at") and not old.get("cancel_requested_at"):
        return ["C11"]
    if old["status"] in OPEN:
        return ["resent"]
    if new.get("renewals") != old.get("renewals"):
        return ["C3"]
    if new.get("stage") != old.get("stage"):
        return ["C4"]
    return ["noted"]


def job_transitions(old: Item | None, new: Item) -> list[str]:
    """Return the transition of a job's status; empty if it is not a valid one."""
    after = new["status"]
    if old is None:
        return ["J0"] if after == J.SUBMITTING else []
    before = old["status"]
    transitions = {
        (J.SUBMITTING, J.RUNNING): "J1",
        (J.RUNNING, J.FINALIZING): "J2",
        (J.RUNNING, J.PAUSED): "J10",
        (J.PAUSED, J.RUNNING): "J11",
        (J.CANCELLING, J.FINALIZING): "J2",
        (J.CANCELLING, J.CANCELLED): "J5",
        (J.REOPENING, J.RUNNING): "J9",
        (J.REOPENING, J.SUBMITTING): "J9",
        **{(J.FINALIZING, outcome): "J3" for outcome in OUTCOMES},
        **{(state, J.CANCELLING): "J4" for state in CANCELLABLE},
        **{(o, J.REOPENING): "J8" for o in {*OUTCOMES, J.CANCELLED}},
        **{(o, J.DELETING): "J12" for o in {*OUTCOMES, J.CANCELLED}},
        (J.DELETING, J.DELETED): "J13",
    }
    transition = transitions.get((J(before), J(after)))
    return [transition] if transition else []
