"""After a chunk has ended: count it, delete its message, see whether it was the last.

In this order, so that a crash in between brings the message back and the count is
made up for. Chunks that end close together share the requests.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field

import structlog

from piecework import layout, telemetry
from piecework.errors import SchemaTooNewError
from piecework.model import ChunkRef, JobRef
from piecework.runtime import Runtime

#: Ended chunks after which the requests are made at once.
ENOUGH = 100
#: Seconds for which what ends next waits for the requests under way, to share its own
#: with more; no longer, for a large job's last look at its chunks may take many.
PATIENCE_S = 0.25
#: Times that the requests are under way at once.
AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class Ack:
    """A chunk that has ended, the size of its job, and its message if it had one."""

    ref: ChunkRef
    chunks: int
    receipt: str | None
    cancelled: bool = False


@dataclass(slots=True)
class AckBatcher:
    """The ended chunks of one worker.

    Attributes:
        idle: Whether nothing else is in hand, so that waiting gains nothing.
        all_ended: Told of a job that may have ended: its tallies are full, or it was
            cancelled.
    """

    rt: Runtime
    idle: Callable[[], bool]
    all_ended: Callable[[JobRef], Awaitable[None]]
    log: structlog.stdlib.BoundLogger
    _waiting: list[Ack] = field(default_factory=list)
    _ripe: asyncio.Event = field(default_factory=asyncio.Event)
    _some: asyncio.Event = field(default_factory=asyncio.Event)
    _under_way: set[asyncio.Task[None]] = field(default_factory=set)

    def add(self, ack: Ack) -> None:
        """Take a chunk that has ended; returns at once."""
        self._waiting.append(ack)
        self._some.set()
        if len(self._waiting) >= ENOUGH or self.idle():
            self._ripe.set()

    async def run(self) -> None:
        """Make the requests, for ever."""
        try:
            while True:
                await self._some.wait()
                with suppress(TimeoutError):
                    async with asyncio.timeout(self.rt.settings.ack_batch_s):
                        await self._ripe.wait()
                self._begin()
                with suppress(TimeoutError):
                    async with asyncio.timeout(PATIENCE_S):
                        await self._done(0)
                await self._done(AT_ONCE - 1)
        finally:
            for each in self._under_way:
                each.cancel()
            if self._under_way:
                await asyncio.wait(self._under_way)

    async def flush(self) -> None:
        """Make the requests for all that wait, and see those under way through."""
        self._begin()
        await self._done(0)

    def _begin(self) -> None:
        """Begin the requests for all that wait."""
        taken, self._waiting = self._waiting, []
        self._some.clear()
        self._ripe.clear()
        if taken:
            task = asyncio.create_task(self._make(taken))
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)

    async def _done(self, most: int) -> None:
        """Wait until no more than so many are under way."""
        while len(self._under_way) > most:
            await asyncio.wait(self._under_way, return_when=asyncio.FIRST_COMPLETED)

    async def _make(self, taken: list[Ack]) -> None:
        """Make the requests; what fails comes back as a message."""
        groups: dict[tuple[JobRef, int, int], list[Ack]] = defaultdict(list)
        for ack in taken:
            groups[ack.ref.of, layout.partition_of(ack.ref.chunk), ack.chunks].append(
                ack
            )
        replies = await asyncio.gather(
            *(self._count(*group, acks) for group, acks in groups.items()),
            return_exceptions=True,
        )
        for reply in replies:
            if isinstance(reply, BaseException):
                telemetry.emit(self.log, "acks.failed", error=type(reply).__name__)

    async def _count(
        self, ref: JobRef, group: int, chunks: int, acks: list[Ack]
    ) -> None:
        ended = [ack.ref.chunk for ack in acks if not ack.ref.is_join]
        full = await self.rt.tallies.add(ref, group, ended, chunks)
        # The tallies know nothing of what a sweep cancelled: look for ourselves.
        if full or any(ack.cancelled for ack in acks):
            # A job of which newer workers have done a part is theirs to end.
            with suppress(SchemaTooNewError):
                await self.all_ended(ref)
        await self.rt.work.delete([ack.receipt for ack in acks if ack.receipt])
