"""A store in the memory of this process, for one process and for tests."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Protocol

from piecework.idempotency.record import (
    BeginRequest,
    Ended,
    Granted,
    OperationRef,
    OutOfOrder,
    Record,
    State,
    Verdict,
    begun_record,
    expired,
    in_doubt,
    judge,
    settled_record,
)

#: The number of records at which the expired ones are first deleted.
SWEEP_SIZE = 1_024


@dataclass(slots=True)
class MemoryIdempotency:
    """A store that lives as long as its process.

    Attributes:
        tenant: The tenant of the operations; part of every key.
        clock: Returns the seconds since 1970.
    """

    tenant: str = "default"
    _: KW_ONLY
    clock: Callable[[], float] = time.time
    _records: dict[tuple[str, int], Record] = field(default_factory=dict)
    _next_number: dict[str, int] = field(default_factory=dict)
    _sweep_at: int = SWEEP_SIZE

    async def begin(self, request: BeginRequest) -> Verdict:
        """Begin an operation, or return why it may not begin."""
        now, ref = self.clock(), request.ref
        verdict = judge(self._record(ref), request, now)
        if ref.number:
            expected = self._next_number.get(ref.key, 1)
            if ref.number > expected:
                return OutOfOrder(expected)
            if ref.number < expected and isinstance(verdict, Granted):
                return Ended(State.DONE, None)
        if isinstance(verdict, Granted):
            self._sweep(now)
            self._put(ref, begun_record(request, now))
        return verdict

    async def settle(
        self, request: BeginRequest, state: State, value: str | None = None
    ) -> bool:
        """Record the outcome of an operation; False: another call took it over."""
        ref, record = request.ref, self._record(request.ref)
        if record is None or record.owner_token != request.owner_token:
            return False
        settled = settled_record(record, request, state, value, self.clock())
        self._put(ref, settled)
        if ref.number and state is State.DONE:
            self._next_number[ref.key] = ref.number + 1
        return True

    async def release(self, ref: OperationRef) -> bool:
        """Record that an operation did not happen; False: it is not in doubt."""
        record = self._record(ref)
        if record is None or not in_doubt(record, self.clock()):
            return False
        self._put(ref, replace(record, state=State.RELEASED))
        return True

    def _record(self, ref: OperationRef) -> Record | None:
        return self._records.get((ref.key, ref.number))

    def _put(self, ref: OperationRef, record: Record) -> None:
        self._records[ref.key, ref.number] = record

    def _sweep(self, now: float) -> None:
        """Delete what does not count any more: a process may run for months."""
        if len(self._records) < self._sweep_at:
            return
        for place, record in list(self._records.items()):
            if record.state is State.RELEASED or expired(record, now):
                del self._records[place]
        self._sweep_at = max(SWEEP_SIZE, 2 * len(self._records))


# ── what a store of operations has to provide ─────────────────────────────────


class IdempotencyStore(Protocol):
    """Stores the records of operations."""

    @property
    def tenant(self) -> str:
        """The tenant of the operations; part of every key."""

    async def begin(self, request: BeginRequest) -> Verdict:
        """Begin an operation, or return why it may not begin.

        Raises:
            StoreError: The store is unavailable; nothing has begun.
        """

    async def settle(
        self, request: BeginRequest, state: State, value: str | None = None
    ) -> bool:
        """Record the outcome of an operation; False: another call took it over.

        If a numbered operation is DONE, the stream expects the next number.

        Raises:
            StoreError: The store is unavailable.
        """

    async def release(self, ref: OperationRef) -> bool:
        """Record that an operation did not happen; False: it is not in doubt."""
