"""The one task that serves the calls which wait for a record of the fleet.

The limits of a dependency and a budget work alike. Many calls of a process wait for
one record, and one task writes it for all of them. The task runs only while there is
something to do.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, Protocol

#: Seconds between two writes of a worker to one record.
WRITE_S: Final = 1.0
#: Seconds that a worker waits for the record.
RECORD_TIMEOUT_S: Final = 2.0
#: Writes of one round before the worker lets the others go first.
TRIES: Final = 5
#: The upper limit of the first delay after a lost race, in seconds; it doubles.
RACE_S: Final = 0.02


class WaitingCall(Protocol):
    """A call that waits until the task grants it what it needs."""

    @property
    def granted(self) -> asyncio.Future[Any]:
        """What the call awaits."""


@dataclass(slots=True)
class ServingTask:
    """The task of one record in one process.

    Attributes:
        waiting: The calls that wait, in order of arrival.
        serve: Serves them, and returns when nothing is left to do.
    """

    waiting: deque[Any]
    serve: Callable[[], Coroutine[Any, Any, None]]
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _task: asyncio.Task[None] | None = None

    @property
    def is_idle(self) -> bool:
        """Whether the task does not run."""
        return self._task is None or self._task.done()

    def wake(self) -> None:
        """Let the task look again, if it runs."""
        self._changed.set()

    def ensure_running(self) -> None:
        """Start the task, or let it look again."""
        self._changed.set()
        if not self.is_idle:
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # it has ended, and a call of it is cleared away
            return
        self._task = loop.create_task(self.serve())
        self._task.add_done_callback(self._fail_waiting)

    def note_look(self) -> None:
        """Note that the task looks now: only what changes later wakes it."""
        self._changed.clear()

    async def wait(self, seconds: float | None) -> None:
        """Wait until something changes, at most this many seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()

    async def stop(self) -> None:
        """Stop the task, and wait for its end."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def _fail_waiting(self, done: asyncio.Task[None]) -> None:
        """Let no call wait for a task that failed."""
        if done.cancelled() or (error := done.exception()) is None:
            return
        while self.waiting:
            call: WaitingCall = self.waiting.popleft()
            if not call.granted.done():
                call.granted.set_exception(error)


async def retry_lost_races(rng: Random, write: Callable[[], Awaitable[bool]]) -> bool:
    """Write again while another worker was faster, `TRIES` times at most.

    `write`: returns whether this worker's write was the next one.
    """
    for race in range(TRIES):
        if await write():
            return True
        await asyncio.sleep(rng.uniform(0.0, RACE_S * 2**race))
    return False
