"""Let the transactions of a process take turns at the items that they share.

DynamoDB cancels one of two transactions on one item at a time, also if it only checks
the item. Concurrent effects of a chunk all check their chunk. So the next one of a
process waits for the one before, and no request is lost. Other processes are not known
here: see `piecework.store.table.Waits`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeAlias
from weakref import WeakValueDictionary

#: An item: its table and its key.
Place: TypeAlias = tuple[str, str, str]


@dataclass(slots=True)
class Turns:
    """The items of the transactions in progress, each with a lock."""

    _locks: WeakValueDictionary[Place, asyncio.Lock] = field(
        default_factory=WeakValueDictionary
    )

    @asynccontextmanager
    async def at(self, places: Iterable[Place]) -> AsyncIterator[None]:
        """Wait for the transactions before this one on any of the items."""
        # All take the locks in the same order, so that no two wait for each other.
        locks = [self._lock(place) for place in sorted(set(places))]
        taken = []
        try:
            for lock in locks:
                await lock.acquire()
                taken.append(lock)
            yield
        finally:
            for lock in reversed(taken):
                lock.release()

    def _lock(self, place: Place) -> asyncio.Lock:
        lock = self._locks.get(place)
        if lock is None:
            lock = self._locks[place] = asyncio.Lock()
        return lock
