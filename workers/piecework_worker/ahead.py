"""Chunks that a worker asked for before it has slots: the next free slot starts one.

Without them a slot of a chunk of 100 ms is idle for a seventh of its time: until more
slots are free, and while the request is on its way. How many wait depends on how fast
chunks end here. A worker of long chunks asks for none, so none waits that another
worker could start.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from piecework.aws.queue import BATCH, Delivery, Message
from piecework.domain.job import Job
from piecework.domain.refs import ChunkRef
from piecework.errors import PieceworkError
from piecework.runtime import Runtime

#: Seconds within which the slots of the worker should become free for what waits.
AHEAD_S: Final = 0.1
#: Seconds in which ends are counted, and after which what waits goes to other workers:
#: the chunks in the slots take longer than those before.
WINDOW_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Drawn:
    """A chunk that was drawn from a backlog."""

    job: Job
    ref: ChunkRef
    gen: int


@dataclass(slots=True)
class Ahead:
    """What waits in one worker for its next free slot.

    Attributes:
        start: Starts a message, or a drawn chunk, in a free slot.
    """

    rt: Runtime
    start: Callable[[Delivery | Drawn], None]
    _waiting: deque[Delivery | Drawn] = field(default_factory=deque)
    _ends: deque[float] = field(default_factory=deque)
    _late: asyncio.TimerHandle | None = None
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def __len__(self) -> int:
        return len(self._waiting)

    def note_end(self) -> None:
        """Count a chunk that has ended in this worker."""
        self._ends.append(now())

    def room(self) -> int:
        """Return for how many more chunks to ask than slots are free."""
        while self._ends and self._ends[0] < now() - WINDOW_S:
            self._ends.popleft()
        size = min(BATCH, int(len(self._ends) / WINDOW_S * AHEAD_S))
        return max(0, size - len(self))

    def add(self, each: Delivery | Drawn) -> None:
        """Let a message, or a drawn chunk, wait."""
        self._waiting.append(each)
        if self._late is None:
            loop = asyncio.get_running_loop()
            self._late = loop.call_later(WINDOW_S, self._give_up)

    def start_next(self) -> bool:
        """Start what has waited longest; return whether anything did."""
        if not self._waiting:
            return False
        self.start(self._waiting.popleft())
        if not self._waiting:
            self._settle()
        return True

    async def give_back(self) -> None:
        """Leave what waits to the other workers, and to this one once it has a slot.

        What the queue does not take comes back by itself: a message when it is visible
        again, a drawn chunk by the reconciler.
        """
        waiting = list(self._waiting)
        self._waiting.clear()
        self._settle()
        drawn = [each for each in waiting if isinstance(each, Drawn)]
        receipts = [each.receipt for each in waiting if not isinstance(each, Drawn)]
        with suppress(PieceworkError):
            if receipts:
                await self.rt.work.hide(receipts, 0)
        for queue in {each.job.queue for each in drawn}:
            of_queue = [each for each in drawn if each.job.queue == queue]
            messages = [Message.about(each.ref, each.gen) for each in of_queue]
            with suppress(PieceworkError):
                await self.rt.work.send(messages, to=queue)

    def _give_up(self) -> None:
        task = asyncio.ensure_future(self.give_back())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _settle(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None


def now() -> float:
    """Return the time of the loop."""
    return asyncio.get_running_loop().time()
