"""The places for calls in flight: first come, first served, at little cost a call.

A place goes from hand to hand. asyncio's own semaphore looks, for each that leaves, at
all that were woken and have not run yet: where calls end together, at half of them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from types import TracebackType


class CallLimiter:
    """So many may be inside `async with` at once."""

    def __init__(self, slots: int) -> None:
        """Begin with all of them free."""
        self._free = slots
        self._slots = slots
        self._waiters: deque[asyncio.Future[None]] = deque()

    @property
    def in_use(self) -> int:
        """How many are held."""
        return self._slots - self._free

    async def __aenter__(self) -> None:
        """Take a free place, or wait for the next one."""
        if self._free:
            self._free -= 1
            return
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if not waiter.cancelled():
                self._release()  # it was ours already
            raise

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave the place to the next who waits."""
        self._release()

    def _release(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
        self._free += 1
