"""Let one claim of a worker run while the worker works on no other chunk.

A suspect chunk runs its stages in a child process. A join cannot run there, because it
streams the results of its job. A suspect join waits until the worker's other claims
have ended, and no other claim begins before the join has run.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

#: Seconds between two progress reports of a claim that waits.
REPORT_S = 1.0


@dataclass(slots=True)
class Solitude:
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
    async def alone(self, progress: Callable[[], None]) -> AsyncIterator[None]:
        """Run a claim of `shared` inside once no other claim is active.

        The wait counts as progress. Claims that want to be alone follow each other.
        """
        self.wanted += 1
        self._add(-1)
        waits = asyncio.create_task(report(progress))
        try:
            while self.active:
                await self._wait()
            waits.cancel()
            self.active += 1
            try:
                yield
            finally:
                self._add(-1)
        finally:
            waits.cancel()
            self.wanted -= 1
            self._add(1)

    async def _wait(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    def _add(self, count: int) -> None:
        self.active += count
        if self.wanted or count > 0:
            self._changed.set()


async def report(progress: Callable[[], None]) -> None:
    """Report progress until cancelled: a claim that waits for its turn is not hung."""
    while True:
        progress()
        await asyncio.sleep(REPORT_S)
