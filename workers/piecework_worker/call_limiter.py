"""The call slots of one worker, which the calls of all its chunks share."""

from __future__ import annotations

import asyncio
from collections import deque
from types import TracebackType


class CallLimiter:
    """Limits how many callers are inside `async with` at once, in order of arrival.

    A slot passes directly to the next waiter. asyncio's semaphore scans, at each
    release, all waiters that it woke and that have not run yet. Where calls end
    together, that is half of them. With 64 waiters a call takes 1.1 to 1.2 times the
    CPU. With 256 that end together it takes 1.9 times the CPU.
    """

    def __init__(self, slots: int) -> None:
        self._free = slots
        self._slots = slots
        self._waiters: deque[asyncio.Future[None]] = deque()

    @property
    def in_use(self) -> int:
        """Slots in use."""
        return self._slots - self._free

    async def __aenter__(self) -> None:
        """Take a free slot, or wait for the next one."""
        if self._free:
            self._free -= 1
            return
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if not waiter.cancelled():
                self._release()  # this worker already had it
            raise

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Pass the slot to the next waiter."""
        self._release()

    def _release(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
        self._free += 1
