"""What a store of operations has to provide: three atomic methods."""

from __future__ import annotations

from typing import Protocol

from piecework.idempotency.record import BeginRequest, Slot, State, Verdict


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

    async def release(self, slot: Slot) -> bool:
        """Record that an operation did not happen; False: it is not in doubt."""
