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

from workers.isolation.faults import AttemptError, OwnAttemptError
from workers.isolation.messages import Attempt, Attempted, Drop
from workers.isolation.process import Child


@dataclass(slots=True)
class Attempts:
    """Has functions called in a child.

    Attributes:
        cut: The stage was cut off; what is under way still is let land.
        dead: How the child died.
    """

    child: Child
    cut: bool = False
    dead: str = ""
    _under_way: dict[int, asyncio.Future[Attempted]] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    async def make(
        self, call: int, key: str, *, lookup: bool = False, place: int = 0
    ) -> Any:
        """Have a function called and return its value; cut off, wait until it is.

        Raises:
            AttemptError: What the function raised.
            CancelledError: The child died.
        """
        if self.dead:
            raise asyncio.CancelledError
        number = next(self._numbers)
        future = asyncio.get_running_loop().create_future()
        self._under_way[number] = future
        self.child.line.send(Attempt(call, number, key, lookup, place))
        try:
            done = await asyncio.shield(future)
        except asyncio.CancelledError:
            await self._drop(number, future)
            raise
        finally:
            del self._under_way[number]
        if done.failure is not None:
            error = OwnAttemptError if done.own else AttemptError
            raise error(done.failure, number)
        if done.value is None:
            raise asyncio.CancelledError
        return from_json(done.value)

    async def _drop(self, number: int, attempt: asyncio.Future[Attempted]) -> None:
        """Cut an attempt off: after its stage was cut off, together with the child.

        Who is cut off again cuts it off again, and waits still: the child goes on to
        other stages, and none of them may find it there.
        """
        while not attempt.done():
            if self.cut:
                self.child.kill()
            self.child.line.send(Drop(number))
            with suppress(asyncio.CancelledError):
                await asyncio.wait([attempt])

    def came(self, message: Attempted) -> None:
        """Note what came of an attempt."""
        future = self._under_way.get(message.number)
        if future is not None and not future.done():
            future.set_result(message)

    def lose(self, how: str) -> None:
        """Cut all attempts off: the child died, and nobody will tell their end."""
        self.dead = how
        for future in self._under_way.values():
            future.cancel()

    def __bool__(self) -> bool:
        """Whether any is under way."""
        return bool(self._under_way)

    async def landed(self) -> None:
        """Wait until none is under way, nor tried again."""
        while self._under_way:
            await asyncio.wait(list(self._under_way.values()))
            await asyncio.sleep(0)  # whoever waited for it goes first
