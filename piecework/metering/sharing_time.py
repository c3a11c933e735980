"""A process's busy time, shared evenly at each moment among all that it has in hand.

The clock of shares runs at one second a second for a single chunk, and at a tenth of
that for ten. So a chunk's share is what that clock has moved on while it was in hand,
and all shares together are the time in which anything was.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(slots=True)
class SharedTime(Generic[T]):
    """What is in hand, how often, and the clock of shares."""

    clock: Callable[[], float] = time.monotonic
    held: dict[T, int] = field(default_factory=dict)
    _count: int = 0
    _shares: float = 0.0
    _at: float = 0.0

    def take(self, thing: T) -> float:
        """Take something in hand; return what to let go of it with."""
        self._move_on()
        self._count += 1
        self.held[thing] = self.held.get(thing, 0) + 1
        return self._shares

    def let_go(self, thing: T, taken: float) -> float:
        """Let go of something; return its share, in seconds."""
        self._move_on()
        self._count -= 1
        self.held[thing] -= 1
        if not self.held[thing]:
            del self.held[thing]
        return self._shares - taken

    def _move_on(self) -> None:
        now = self.clock()
        if self._count:
            self._shares += (now - self._at) / self._count
        self._at = now
