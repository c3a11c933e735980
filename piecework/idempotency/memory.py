"""Records in the memory of this process: for one process, and for tests."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field, replace

from piecework.idempotency.record import (
    Asked,
    Ended,
    Granted,
    OutOfOrder,
    Record,
    Slot,
    State,
    Verdict,
    begun,
    expired,
    in_doubt,
    judge,
    settled,
)

#: Records beyond which those that are over are looked for, and taken out.
SWEPT_AT = 1_024


@dataclass(slots=True)
class MemoryIdempotency:
    """A store that ends with its process.

    Attributes:
        clock: Tells the time in seconds since 1970.
    """

    tenant: str = "default"
    _: KW_ONLY
    clock: Callable[[], float] = time.time
    _records: dict[tuple[str, int], Record] = field(default_factory=dict)
    _due: dict[str, int] = field(default_factory=dict)
    _sweep_at: int = SWEPT_AT

    async def begin(self, asked: Asked) -> Verdict:
        """Begin an operation, or learn what stands against it."""
        now, slot = self.clock(), asked.slot
        verdict = judge(self._record(slot), asked, now)
        if slot.number:
            due = self._due.get(slot.key, 1)
            if slot.number > due:
                return OutOfOrder(due)
            if slot.number < due and isinstance(verdict, Granted):
                return Ended(State.DONE, None)
        if isinstance(verdict, Granted):
            self._sweep(now)
            self._keep(slot, begun(asked, now))
        return verdict

    async def settle(
        self, asked: Asked, state: State, value: str | None = None
    ) -> bool:
        """Write what came of an operation; False: somebody else has begun it since."""
        slot, record = asked.slot, self._record(asked.slot)
        if record is None or record.fence != asked.fence:
            return False
        self._keep(slot, settled(record, asked, state, value, self.clock()))
        if slot.number and state is State.DONE:
            self._due[slot.key] = slot.number + 1
        return True

    async def release(self, slot: Slot) -> bool:
        """Write that an operation in doubt did not happen; False: none is in doubt."""
        record = self._record(slot)
        if record is None or not in_doubt(record, self.clock()):
            return False
        self._keep(slot, replace(record, state=State.RELEASED))
        return True

    def _record(self, slot: Slot) -> Record | None:
        return self._records.get((slot.key, slot.number))

    def _keep(self, slot: Slot, record: Record) -> None:
        self._records[slot.key, slot.number] = record

    def _sweep(self, now: float) -> None:
        """Forget what is over, now and then: a process may run for months."""
        if len(self._records) < self._sweep_at:
            return
        for place, record in list(self._records.items()):
            if expired(record, now):
                del self._records[place]
        self._sweep_at = max(SWEPT_AT, 2 * len(self._records))
