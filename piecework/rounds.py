"""Start a large number of calls a few at a time, so that other work can run between.

A stage may start thousands of calls at once. Each needs some CPU before it waits for
its slot. Started in a row, they would keep the event loop from answers, from freed
slots and from the renewal of leases.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field

#: Calls that start in one round of the event loop: half a millisecond of CPU.
CALLS_PER_ROUND = 8


@dataclass(slots=True)
class CallPacer:
    """Starts the calls of a process in the order in which they arrive."""

    _started: int = 0
    _waiting: deque[asyncio.Future[None]] = field(default_factory=deque)

    async def wait_turn(self) -> None:
        """Return at once, or in a later round if this round has enough calls."""
        if self._started < CALLS_PER_ROUND and not self._waiting:
            self._start()
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        await turn

    def _start(self) -> None:
        """Count a started call; the first of a round schedules the next round."""
        if not self._started:
            asyncio.get_running_loop().call_soon(self._next_round)
        self._started += 1

    def _next_round(self) -> None:
        """Start waiting calls in a new round."""
        self._started = 0
        while self._waiting and self._started < CALLS_PER_ROUND:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                self._start()
