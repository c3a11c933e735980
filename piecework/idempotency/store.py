"""What a place for the records of operations has to do: three verbs, each atomic."""

from __future__ import annotations

from typing import Protocol

from piecework.idempotency.record import Asked, Slot, State, Verdict


class IdempotencyStore(Protocol):
    """Where operations are remembered."""

    @property
    def tenant(self) -> str:
        """Whose operations these are; part of every key."""

    async def begin(self, asked: Asked) -> Verdict:
        """Begin an operation, or learn what stands against it.

        Raises:
            StoreError: The store cannot be reached; nothing was begun.
        """

    async def settle(
        self, asked: Asked, state: State, value: str | None = None
    ) -> bool:
        """Write what came of an operation; False: somebody else has begun it since.

        Of a numbered one that is DONE, the next number is due from then on.

        Raises:
            StoreError: The store cannot be reached.
        """

    async def release(self, slot: Slot) -> bool:
        """Write that an operation in doubt did not happen; False: none is in doubt."""
