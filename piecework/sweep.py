"""The second phase of a cancel: bring every chunk of the job to its end.

What nobody works on is cancelled at once; a holder is asked to let go, and does so at
its next look. A cancel that undoes hands what was begun to a worker, to be wound back.
Safe to repeat: the operator sweeps once, every reconciler again.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field

from piecework.errors import SchemaTooNewError
from piecework.fanout import grouped, side_by_side
from piecework.finish import finish_cancel
from piecework.model import Chunk, ChunkRef, ChunkStatus, Job
from piecework.ports import CancelRequest
from piecework.queue import BATCH, Message
from piecework.runtime import Runtime
from piecework.store.cancels import (
    cancel_unclaimed,
    request_cancel,
    request_compensation,
)
from piecework.store.census import all_chunks

#: Requests of a sweep under way at once, and the chunks that each goes through.
SWEEPERS = 16
CHUNKS_PER_SWEEPER = 4


async def sweep(rt: Runtime, job: Job) -> tuple[int, int]:
    """Cancel and ask; return how many chunks were cancelled, and how many asked."""
    asked = CancelRequest(job.cancelled_at, job.compensates_on_cancel)
    broom = CancelSweep(rt, asked)

    async def some(chunks: list[Chunk]) -> None:
        for chunk in chunks:
            # A life that began since the job was looked at was cancelled by nobody.
            if not chunk.has_direction and chunk.gen <= job.gen:
                await broom.sweep(chunk)

    # Workers go on claiming as long as it takes.
    newer: list[ChunkRef] = []
    chunks = all_chunks(rt.table, job.ref, job.chunks, newer)
    await side_by_side(some, grouped(chunks, CHUNKS_PER_SWEEPER), SWEEPERS)
    await broom.send()
    if not newer:  # else theirs are swept by the reconciler of that version
        await finish_cancel(rt, job.ref)
    return broom.cancelled, broom.asked


@dataclass(slots=True)
class CancelSweep:
    """Brings chunks to their end."""

    rt: Runtime
    cancel: CancelRequest
    cancelled: int = 0
    asked: int = 0
    _messages: list[Message] = field(default_factory=list)

    async def sweep(self, chunk: Chunk) -> None:
        """Cancel a chunk, or ask for it."""
        if chunk.status is ChunkStatus.RUNNING:
            if "cancel_requested_at" not in chunk.item:
                self.asked += await request_cancel(self.rt.table, chunk, self.cancel)
        elif not chunk.status.terminal and not await self.sweep_waiting(chunk):
            await self.request_cancel_of_claimed(chunk)

    async def sweep_waiting(self, chunk: Chunk) -> bool:
        """Cancel a chunk that nobody has, or hand it out; False: somebody took it."""
        table, now = self.rt.table, self.rt.clock()
        # A fence never falls: without one nobody has ever begun it.
        if not (self.cancel.compensate and chunk.fence):
            cancelled = await cancel_unclaimed(table, chunk, now)
            self.cancelled += cancelled
            return cancelled
        # Asked while it was in hand, it may have parked: that retry is not waited for.
        if "cancel_requested_at" in chunk.item and "retry_at" not in chunk.item:
            return True
        again = now + self.rt.settings.visibility_s
        asked = await request_compensation(table, chunk, self.cancel, again)
        if asked:
            await self.hand_out(chunk)
        return asked

    async def request_cancel_of_claimed(self, seen: Chunk) -> None:
        """Ask the worker that claimed a chunk since it was looked at."""
        with suppress(SchemaTooNewError):
            await self.repeat_requests(seen)

    async def repeat_requests(self, seen: Chunk) -> None:
        """Ask the holder of a chunk as it stands now."""
        item = await self.rt.table.get(seen.ref.pk, seen.ref.sk)
        if item is not None and item["gen"] == seen.gen:
            chunk = Chunk.read(seen.ref, item)
            self.asked += await request_cancel(self.rt.table, chunk, self.cancel)

    async def hand_out(self, chunk: Chunk) -> None:
        """Send a chunk that is to be wound back."""
        self.asked += 1
        self._messages.append(Message.about(chunk.ref, chunk.gen))
        if len(self._messages) == BATCH:
            await self.send()

    async def send(self) -> None:
        """Send what waits for it."""
        messages, self._messages = self._messages, []
        if messages:
            await self.rt.work.send(messages)
