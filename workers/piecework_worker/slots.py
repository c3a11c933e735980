"""The slots of a worker: a chunk whose end is being written needs none.

The write of the end takes a request. Meanwhile the next chunk is claimed in its slot,
so a slot of short chunks waits for one request, and not for two in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass


def _nothing() -> None:
    """Wake no one: the worker is not made yet."""


@dataclass(slots=True)
class Slots:
    """Counts the chunks of one worker whose stages have ended.

    Attributes:
        most: The slots of the worker. At most as many chunks more write their end: a
            table that answers slowly must not let the worker claim more and more.
        ending: The chunks whose end is being written.
        on_free: Called when a slot has become free.
    """

    most: int
    ending: int = 0
    on_free: Callable[[], None] = _nothing

    @contextmanager
    def freed(self) -> Iterator[None]:
        """Write the end of a chunk inside: its slot is free for the next one."""
        self.ending += 1
        self.on_free()
        try:
            yield
        finally:
            self.ending -= 1

    def taken(self, active: int) -> int:
        """Return how many slots so many active tasks take."""
        return active - min(self.ending, self.most)
