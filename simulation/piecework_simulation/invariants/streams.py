"""Check that the numbers of a stream are called in their order, each until it is done.

The checker reads the rows of the streams, and sees the calls that reach the provider.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from piecework.domain import keys
from piecework.domain.model import moment
from piecework.idempotency.record import Slot, State
from piecework.store.serialization import from_item
from piecework_simulation.aws.dynamodb import Change


@dataclass(slots=True)
class StreamInvariants:
    """The next number of each stream, by its partition."""

    report_violation: Callable[[str], None]
    now: Callable[[], float]
    due: dict[str, int] = field(default_factory=dict)

    @staticmethod
    def concerns(change: Change) -> bool:
        """Return whether a write is of an operation or of a stream."""
        return "#I#" in change.pk

    def check_write(self, change: Change) -> None:
        """Check a write to an operation, or to the head of a stream."""
        old = from_item(change.old) if change.old else {}
        new = from_item(change.new) if change.new else {}
        name = f"{change.pk[-12:]} {change.sk}"
        if change.sk == keys.HEAD_SK:
            due = new.get("due_number", 0)
            if due != self.due.get(change.pk, 1) + 1:
                self.report_violation(f"I26: {name} moved to number {due}")
            self.due[change.pk] = due
        elif old.get("state") == State.DONE and moment(old["valid_until"]) > self.now():
            self.report_violation(f"I26: the stored answer of {name} was replaced")

    def check_start(self, tenant: str, slot: Slot | None) -> None:
        """Check the start of a call that has a number."""
        if slot is None or not slot.number:
            return
        due = self.due.get(keys.idempotency_pk(tenant, slot.key), 1)
        if slot.number != due:
            self.report_violation(f"I26: {slot.number} was called when {due} was due")
