"""Check that the numbers of a stream are called in their order, each until it is done.

The checker reads the rows of the streams, and sees the calls that reach the provider.
A worker that woke up late may store its answer after the chunk's next claim has begun
the same number. So a call is in order if its number was due when it was begun.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from piecework.domain import keys
from piecework.domain.moments import moment
from piecework.idempotency.record import OperationRef, State
from piecework.store.serialization import from_item
from piecework_simulation.aws.dynamodb import Change


@dataclass(slots=True)
class StreamInvariants:
    """The next number of each stream, by its partition.

    Attributes:
        begun: How often each number was begun while it was due, less its calls.
    """

    report_violation: Callable[[str], None]
    now: Callable[[], float]
    due: dict[str, int] = field(default_factory=dict)
    begun: Counter[tuple[str, int]] = field(default_factory=Counter)

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
        elif new.get("state") == State.BEGUN and change.sk == keys.number_sk(
            self.due.get(change.pk, 1)
        ):
            self.begun[change.pk, self.due.get(change.pk, 1)] += 1
        elif old.get("state") == State.DONE and moment(old["valid_until"]) > self.now():
            self.report_violation(f"I26: the stored answer of {name} was replaced")

    def check_start(self, tenant: str, ref: OperationRef | None) -> None:
        """Check the start of a call that has a number."""
        if ref is None or not ref.number:
            return
        pk = keys.idempotency_pk(tenant, ref.key)
        due, place = self.due.get(pk, 1), (pk, ref.number)
        if self.begun[place]:
            self.begun[place] -= 1
        elif ref.number != due:
            self.report_violation(f"I26: {ref.number} was called when {due} was due")
