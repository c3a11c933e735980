"""The attempts of a run's calls that are under way in its child.

One whose end nobody will tell is cut off, as everything is when a worker dies: what
becomes of its effect is for the next attempt of the chunk to find out.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from pydantic_core import from_json

from workers.isolation.faults import AttemptError, PieceworkAttemptError
from workers.isolation.messages import Attempt, AttemptResult, CancelAttempt
from workers.isolation.process import Child


@dataclass(slots=True)
class ChildAttempts:
    """Has functions called in a child.

    Attributes:
        cut: The stage was cut off; what is under way still is let land.
        dead: How the child died.
    """

    child: Child
    stage_cancelled: bool = False
    death_reason: str = ""
    _under_way: dict[int, asyncio.Future[AttemptResult]] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    async def run(
        self, call: int, key: str, *, lookup: bool = False, position: int = 0
    ) -> Any:
        """Have a function called and return its value; cut off, wait until it is.

        Raises:
            AttemptError: What the function raised.
            CancelledError: The child died.
        """
        if self.death_reason:
            raise asyncio.CancelledError
        number = next(self._numbers)
        future = asyncio.get_running_loop().create_future()
        self._under_way[number] = future
        self.child.channel.send(Attempt(call, number, key, lookup, position))
        try:
            done = await asyncio.shield(future)
        except asyncio.CancelledError:
            await self._cancel(number, future)
            raise
        finally:
            del self._under_way[number]
        if done.failure is not None:
            error = PieceworkAttemptError if done.piecework_error else AttemptError
            raise error(done.failure, number)
        if done.value is None:
            raise asyncio.CancelledError
        return from_json(done.value)

    async def _cancel(
        self, number: int, attempt: asyncio.Future[AttemptResult]
    ) -> None:
        """Cut an attempt off: after its stage was cut off, together with the child.

        Who is cut off again cuts it off again, and waits still: the child goes on to
        other stages, and none of them may find it there.
        """
        while not attempt.done():
            if self.stage_cancelled:
                self.child.kill()
            self.child.channel.send(CancelAttempt(number))
            with suppress(asyncio.CancelledError):
                await asyncio.wait([attempt])

    def resolve(self, message: AttemptResult) -> None:
        """Note what came of an attempt."""
        future = self._under_way.get(message.number)
        if future is not None and not future.done():
            future.set_result(message)

    def abandon_all(self, how: str) -> None:
        """Cut all attempts off: the child died, and nobody will tell their end."""
        self.death_reason = how
        for future in self._under_way.values():
            future.cancel()

    def __bool__(self) -> bool:
        """Whether any is under way."""
        return bool(self._under_way)

    async def wait_until_idle(self) -> None:
        """Wait until none is under way, nor tried again."""
        while self._under_way:
            await asyncio.wait(list(self._under_way.values()))
            await asyncio.sleep(0)  # whoever waited for it goes first
