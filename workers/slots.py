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
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def taken(self) -> int:
        """How many are held."""
        return self._slots - self._free

    async def __aenter__(self) -> None:
        """Take a free place, or wait for the next one."""
        if self._free:
            self._free -= 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                self._leave()  # it was ours already
            raise

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave the place to the next who waits."""
        self._leave()

    def _leave(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1
