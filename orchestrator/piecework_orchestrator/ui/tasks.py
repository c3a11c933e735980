"""The actions that run: an action that takes long goes on behind a page of its own."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Coroutine
from dataclasses import dataclass, field

from piecework.errors import PieceworkError

#: Seconds that a request waits for its action.
WAIT_S = 2.0
#: Seconds that the end of the process waits for actions. Each can be interrupted:
#: its command is in the record, and a reconciler finishes it.
CLOSE_S = 5.0
#: Ended actions that are kept.
MAX_KEPT = 100


@dataclass(slots=True)
class Task:
    """An action that was started.

    Attributes:
        title: What it does, for people.
        back: The address to return to.
    """

    number: int
    title: str
    back: str
    running: asyncio.Task[str]

    @property
    def done(self) -> bool:
        """Whether it has ended."""
        return self.running.done()

    @property
    def outcome(self) -> str:
        """The sentence about its outcome; empty while it runs, or if it failed."""
        return "" if not self.done or self.error else self.running.result()

    @property
    def error(self) -> PieceworkError | None:
        """The error that ended it.

        Raises:
            Exception: It ended by an error without a code: a fault of Piecework.
        """
        if not self.done:
            return None
        if self.running.cancelled():
            return PieceworkError("The page was stopped.", code="cli.wait.timeout")
        error = self.running.exception()
        if error is None or isinstance(error, PieceworkError):
            return error
        raise error


@dataclass(slots=True)
class Tasks:
    """The actions of one start of the page."""

    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    _tasks: dict[int, Task] = field(default_factory=dict)

    async def start(
        self, title: str, back: str, work: Coroutine[None, None, str]
    ) -> Task:
        """Start an action, and wait a little for its end."""
        running = asyncio.create_task(work)
        task = Task(next(self._numbers), title, back, running)
        self._tasks[task.number] = task
        for number in [n for n, each in self._tasks.items() if each.done][:-MAX_KEPT]:
            del self._tasks[number]
        await asyncio.wait({running}, timeout=WAIT_S)
        return task

    def get(self, number: int) -> Task | None:
        """Return an action; None: it is unknown, or too old."""
        return self._tasks.get(number)

    async def close(self) -> None:
        """Wait a little for the actions that run, then cancel them."""
        running = {task.running for task in self._tasks.values() if not task.done}
        if running:
            _, late = await asyncio.wait(running, timeout=CLOSE_S)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
