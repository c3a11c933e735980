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
MAX_BATCH = 100
#: Seconds for which what ends next waits for the requests under way, to share its own
#: with more; no longer, for a large job's last look at its chunks may take many.
PATIENCE_S = 0.25
#: Times that the requests are under way at once.
MAX_REQUESTS = 4


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
    on_all_ended: Callable[[JobRef], Awaitable[None]]
    log: structlog.stdlib.BoundLogger
    _pending: list[Ack] = field(default_factory=list)
    _flush_now: asyncio.Event = field(default_factory=asyncio.Event)
    _has_pending: asyncio.Event = field(default_factory=asyncio.Event)
    _requests: set[asyncio.Task[None]] = field(default_factory=set)

    def add(self, ack: Ack) -> None:
        """Take a chunk that has ended; returns at once."""
        self._pending.append(ack)
        self._has_pending.set()
        if len(self._pending) >= MAX_BATCH or self.idle():
            self._flush_now.set()

    async def run(self) -> None:
        """Make the requests, for ever."""
        try:
            while True:
                await self._has_pending.wait()
                with suppress(TimeoutError):
                    async with asyncio.timeout(self.rt.settings.ack_batch_s):
                        await self._flush_now.wait()
                self._start_requests()
                with suppress(TimeoutError):
                    async with asyncio.timeout(PATIENCE_S):
                        await self._wait_until_at_most(0)
                await self._wait_until_at_most(MAX_REQUESTS - 1)
        finally:
            for each in self._requests:
                each.cancel()
            if self._requests:
                await asyncio.wait(self._requests)

    async def flush(self) -> None:
        """Make the requests for all that wait, and see those under way through."""
        self._start_requests()
        await self._wait_until_at_most(0)

    def _start_requests(self) -> None:
        """Begin the requests for all that wait."""
        acks, self._pending = self._pending, []
        self._has_pending.clear()
        self._flush_now.clear()
        if acks:
            task = asyncio.create_task(self._send(acks))
            self._requests.add(task)
            task.add_done_callback(self._requests.discard)

    async def _wait_until_at_most(self, most: int) -> None:
        """Wait until no more than so many are under way."""
        while len(self._requests) > most:
            await asyncio.wait(self._requests, return_when=asyncio.FIRST_COMPLETED)

    async def _send(self, acks: list[Ack]) -> None:
        """Make the requests; what fails comes back as a message."""
        groups: dict[tuple[JobRef, int, int], list[Ack]] = defaultdict(list)
        for ack in acks:
            groups[ack.ref.of, layout.partition_of(ack.ref.chunk), ack.chunks].append(
                ack
            )
        replies = await asyncio.gather(
            *(self._count_and_delete(*group, acks) for group, acks in groups.items()),
            return_exceptions=True,
        )
        for reply in replies:
            if isinstance(reply, BaseException):
                telemetry.emit(self.log, "acks.failed", error=type(reply).__name__)

    async def _count_and_delete(
        self, ref: JobRef, group: int, chunks: int, acks: list[Ack]
    ) -> None:
        ended = [ack.ref.chunk for ack in acks if not ack.ref.is_join]
        full = await self.rt.tallies.add(ref, group, ended, chunks)
        # The tallies know nothing of what a sweep cancelled: look for ourselves.
        if full or any(ack.cancelled for ack in acks):
            # A job of which newer workers have done a part is theirs to end.
            with suppress(SchemaTooNewError):
                await self.on_all_ended(ref)
        await self.rt.work.delete([ack.receipt for ack in acks if ack.receipt])
