"""Check that one answer of a question counts, and that no step of it is sent twice.

The checks use the rows of questions and the events of jobs, as they are written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from piecework.domain import keys
from piecework.domain.moments import moment
from piecework.domain.question import QuestionState
from piecework.store.serialization import from_item
from piecework_simulation.coverage import ASKED_AGAIN, QUESTION_TRANSITIONS

if TYPE_CHECKING:
    from piecework_simulation.aws.dynamodb import Change
    from piecework_simulation.engine.world import World

#: The events of a question.
EVENTS = frozenset(
    {"asked", "reminded", "escalated", "answered", "defaulted", "timed out"}
)
#: What never changes after an answer, or a default.
DECIDED = ("state", "answer", "default", "decided_by", "decided_at", "gen")
#: Seconds by which clocks of two processes differ, after a wrong one was corrected.
CLOCK_MARGIN_S = 5.0


@dataclass(slots=True)
class QuestionInvariants:
    """The questions of a world."""

    world: World
    report_violation: Callable[[str], None]
    transitions: Counter[str] = field(default_factory=Counter)
    told: set[tuple[Any, ...]] = field(default_factory=set)

    def concerns(self, change: Change) -> bool:
        """Return whether a write is to a question, or is an event."""
        is_event = change.sk.startswith(keys.EVENT_PREFIX)
        return is_event or f"#{keys.QUESTION_ROWS}" in change.sk

    def check_write(self, change: Change) -> None:
        """Check a write to a question, or an event."""
        if change.sk.startswith(keys.EVENT_PREFIX):
            self.check_event(change)
        else:
            self.check_question(change)

    def check_question(self, change: Change) -> None:
        """Check a write to the row of a question."""
        name = f"{change.pk} {change.sk}"
        if change.new is None:
            self.report_violation(f"I24: {name} was deleted")
            return
        new = from_item(change.new)
        again = change.old is not None and new["state"] == QuestionState.OPEN
        taken = ASKED_AGAIN if again else QUESTION_TRANSITIONS[new["state"]]
        self.transitions[taken] += 1
        if change.old is None:
            if new["state"] != QuestionState.OPEN:
                self.report_violation(f"I24: {name} was created as {new['state']}")
            return
        old = from_item(change.old)
        self.check_change(name, old, new)

    def check_change(
        self, name: str, old: Mapping[str, Any], new: Mapping[str, Any]
    ) -> None:
        """Check a change of a question: it ends once."""
        counts = {QuestionState.ANSWERED, QuestionState.DEFAULTED}
        if old["state"] in counts and any(old.get(n) != new.get(n) for n in DECIDED):
            self.report_violation(f"I24: {name} was decided twice")
        if old["state"] == QuestionState.EXPIRED and new["gen"] == old["gen"]:
            self.report_violation(f"I24: {name} changed after its end")
        left = moment(new["until"]) - self.world.now()
        if new["state"] == QuestionState.ANSWERED and left < -CLOCK_MARGIN_S:
            self.report_violation(f"I24: {name} was answered after its end")
        ended = {QuestionState.DEFAULTED, QuestionState.EXPIRED}
        if new["state"] in ended and left > CLOCK_MARGIN_S:
            self.report_violation(f"I24: {name} ended {left:.0f} s early")

    def check_event(self, change: Change) -> None:
        """Check that an event of a question is the only one of its step."""
        if change.new is None:
            return
        row = from_item(change.new)
        if row["event"] not in EVENTS or "question" not in row:
            return
        place = (row["chunk"], row["stage"], row["question"], row["gen"])
        step = (change.pk, *place, row["event"], row.get("step"))
        if step in self.told:
            self.report_violation(f"I25: {step} was delivered twice")
        self.told.add(step)
        if row["event"] in QUESTION_TRANSITIONS:
            self.transitions[QUESTION_TRANSITIONS[row["event"]]] += 1
