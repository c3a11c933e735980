"""Let a great many calls begin a few at a time, so that nothing else has to wait.

A stage may ask for thousands of calls at once. Each needs some CPU before it waits for
its slot; all of them in a row would keep the event loop from what is due meanwhile:
answers, slots that are free again, the renewal of leases.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field

#: Calls that begin in one round of the event loop: half a millisecond.
FEW = 8


@dataclass(slots=True)
class Rounds:
    """The beginning of all calls of a process, in the order in which they come."""

    _begun: int = 0
    _waiting: deque[asyncio.Future[None]] = field(default_factory=deque)

    async def turn(self) -> None:
        """Return at once, or in a later round of the loop if enough begin in this."""
        if self._begun < FEW and not self._waiting:
            self._begin()
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        await turn

    def _begin(self) -> None:
        """Count one that begins; the first of a round opens the next one."""
        if not self._begun:
            asyncio.get_running_loop().call_soon(self._next)
        self._begun += 1

    def _next(self) -> None:
        """Begin a round with those that wait."""
        self._begun = 0
        while self._waiting and self._begun < FEW:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                self._begin()
