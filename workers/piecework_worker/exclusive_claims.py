"""Let one claim of a worker run while the worker works on no other chunk.

A suspect chunk runs its stages in a child process. A join cannot run there, because it
streams the results of its job. A suspect join waits until the worker's other claims
have ended. No other claim begins before the join has run.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import dataclass, field


@dataclass(slots=True)
class ExclusiveClaims:
    """Counts the claims of a worker, and serves those that must run alone.

    Attributes:
        active: The claims in progress that do not wait to be alone.
        wanted: The claims that wait to be alone, and the one that is.
    """

    active: int = 0
    wanted: int = 0
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    @asynccontextmanager
    async def shared(self) -> AsyncIterator[None]:
        """Work on a chunk inside, beside others; wait while a claim must be alone."""
        while self.wanted:
            await self._wait()
        self.active += 1
        try:
            yield
        finally:
            self._add(-1)

    @asynccontextmanager
    async def alone(
        self, waiting: Callable[[], AbstractContextManager[None]]
    ) -> AsyncIterator[None]:
        """Run a claim alone; the caller is inside `shared`, which counts it.

        Inside `waiting`, it waits until no other claim is active. Such claims run one
        after another.
        """
        self.wanted += 1
        self._add(-1)
        try:
            with waiting():
                while self.active > 0:
                    await self._wait()
            self.active += 1
            try:
                yield
            finally:
                self._add(-1)
        finally:
            self.wanted -= 1
            self._add(1)

    async def _wait(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    def _add(self, count: int) -> None:
        self.active += count
        if self.wanted or count > 0:
            self._changed.set()
