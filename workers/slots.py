"""The places for calls in flight, which can say how many are taken."""

from __future__ import annotations

import asyncio


class Slots(asyncio.Semaphore):
    """A semaphore that knows how many hold it."""

    def __init__(self, slots: int) -> None:
        """Begin with all of them free."""
        super().__init__(slots)
        self._slots = slots

    @property
    def taken(self) -> int:
        """How many are held."""
        return self._slots - self._value
