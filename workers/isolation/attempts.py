"""The attempts of a run's calls that are in flight in its child.

If a child dies, its attempts are cancelled, as those of a dead worker are. The next
attempt of the chunk finds out the ends of their effects.
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
    """Runs functions in a child.

    Attributes:
        stage_cancelled: The stage is cancelled; its effects in flight are still
            drained.
        death_reason: How the child died.
    """

    child: Child
    stage_cancelled: bool = False
    death_reason: str = ""
    _under_way: dict[int, asyncio.Future[AttemptResult]] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    async def run(
        self, call: int, key: str, *, lookup: bool = False, position: int = 0
    ) -> Any:
        """Run a function in the child and return its value.

        If this call is cancelled, it returns only after the function has ended.

        Raises:
            AttemptError: The error that the function raised.
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
        """Cancel an attempt; once its stage is cancelled, kill the child instead.

        A second cancellation repeats the request and still waits. The child runs other
        stages
        later, and no attempt of this one may be left in it.
        """
        while not attempt.done():
            if self.stage_cancelled:
                self.child.kill()
            self.child.channel.send(CancelAttempt(number))
            with suppress(asyncio.CancelledError):
                await asyncio.wait([attempt])

    def resolve(self, message: AttemptResult) -> None:
        """Record the result of an attempt."""
        future = self._under_way.get(message.number)
        if future is not None and not future.done():
            future.set_result(message)

    def abandon_all(self, how: str) -> None:
        """Cancel all attempts: the child died and will send no result."""
        self.death_reason = how
        for future in self._under_way.values():
            future.cancel()

    def __bool__(self) -> bool:
        """Return whether any attempt is in flight."""
        return bool(self._under_way)

    async def wait_until_idle(self) -> None:
        """Wait until no attempt is in flight or about to be retried."""
        while self._under_way:
            await asyncio.wait(list(self._under_way.values()))
            await asyncio.sleep(0)  # the task that awaited it runs first
