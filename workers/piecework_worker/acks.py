"""Count ended chunks, delete their messages, and detect the end of a job.

The count is written before the message is deleted. After a crash in between, SQS
delivers the message again and the worker repeats the count. Chunks that end close
together share the requests.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field

import structlog

from piecework import telemetry
from piecework.aws.queue import Receipt
from piecework.domain import keys
from piecework.domain.refs import ChunkRef, JobRef
from piecework.errors import SchemaTooNewError
from piecework.runtime import Runtime

#: Ended chunks that trigger the requests at once.
MAX_BATCH = 100
#: Seconds that the next batch waits for requests in flight, to grow meanwhile. The wait
#: is short because the last snapshot of a large job can take many seconds.
PATIENCE_S = 0.25
#: Batches of requests in flight at once.
MAX_REQUESTS = 4


@dataclass(frozen=True, slots=True)
class Ack:
    """A chunk that has ended, the size of its job, and its message if it had one."""

    ref: ChunkRef
    chunks: int
    receipt: Receipt | None
    cancelled: bool = False


@dataclass(slots=True)
class AckBatcher:
    """The ended chunks of one worker.

    Attributes:
        idle: Returns whether no other task is active, so that waiting gains nothing.
        on_all_ended: Receives a job that may have ended: its tallies are full, or it
            was cancelled.
    """

    rt: Runtime
    idle: Callable[[], bool]
    on_all_ended: Callable[[JobRef], Awaitable[None]]
    log: structlog.stdlib.BoundLogger
    _pending: list[Ack] = field(default_factory=list)
    _needless: list[Receipt] = field(default_factory=list)
    _flush_now: asyncio.Event = field(default_factory=asyncio.Event)
    _has_pending: asyncio.Event = field(default_factory=asyncio.Event)
    _requests: set[asyncio.Task[None]] = field(default_factory=set)

    def add(self, ack: Ack) -> None:
        """Queue a chunk that has ended; return at once."""
        self._pending.append(ack)
        self._has_pending.set()
        if len(self._pending) >= MAX_BATCH or self.idle():
            self._flush_now.set()

    def delete(self, receipt: Receipt) -> None:
        """Queue the deletion of a message that no chunk needs; return at once."""
        self._needless.append(receipt)
        self._has_pending.set()
        if self.idle():
            self._flush_now.set()

    async def run(self) -> None:
        """Send the requests until cancelled."""
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
        """Send the requests for all pending chunks and wait for all in flight."""
        self._start_requests()
        await self._wait_until_at_most(0)

    def _start_requests(self) -> None:
        """Start the requests for all pending chunks."""
        acks, self._pending = self._pending, []
        needless, self._needless = self._needless, []
        self._has_pending.clear()
        self._flush_now.clear()
        if acks or needless:
            task = asyncio.create_task(self._send(acks, needless))
            self._requests.add(task)
            task.add_done_callback(self._requests.discard)

    async def _wait_until_at_most(self, most: int) -> None:
        """Wait until at most `most` batches are in flight."""
        while len(self._requests) > most:
            await asyncio.wait(self._requests, return_when=asyncio.FIRST_COMPLETED)

    async def _send(self, acks: list[Ack], needless: list[Receipt]) -> None:
        """Send the requests; SQS delivers the message of a failed one again."""
        groups: dict[tuple[JobRef, int, int], list[Ack]] = defaultdict(list)
        for ack in acks:
            groups[ack.ref.of, keys.group_of(ack.ref.chunk), ack.chunks].append(ack)
        requests = [
            self._count_and_delete(*group, found) for group, found in groups.items()
        ]
        if needless:
            requests.append(self.rt.work.delete(needless))
        replies = await asyncio.gather(*requests, return_exceptions=True)
        for reply in replies:
            if isinstance(reply, BaseException):
                telemetry.emit(self.log, "acks.failed", error=type(reply).__name__)

    async def _count_and_delete(
        self, ref: JobRef, group: int, chunks: int, acks: list[Ack]
    ) -> None:
        ended = [ack.ref.chunk for ack in acks if not ack.ref.is_join]
        full = await self.rt.tallies.add(ref, group, ended, chunks)
        # The tallies do not count chunks that a cancel sweep ended, so check the job.
        if full or any(ack.cancelled for ack in acks):
            # If a newer worker wrote part of the job, only a newer worker can end it.
            with suppress(SchemaTooNewError):
                await self.on_all_ended(ref)
        await self.rt.work.delete([ack.receipt for ack in acks if ack.receipt])
