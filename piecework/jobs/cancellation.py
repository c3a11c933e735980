"""The second phase of a cancel: end every chunk of the job.

A chunk without an owner is cancelled at once. An owner is requested to stop, and does
so at its next poll. A cancel with compensation dispatches started chunks to a worker.
The sweep may be repeated: the operator's command sweeps once, every reconciler again.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from piecework.aws.queue import BATCH, Message
from piecework.domain.chunk import Chunk
from piecework.domain.job import Job
from piecework.domain.protocols import CancelRequest
from piecework.domain.refs import ChunkRef
from piecework.domain.states import ChunkStatus
from piecework.errors import SchemaTooNewError
from piecework.jobs.fan_in import finish_cancel
from piecework.jobs.fan_out import (
    Counter,
    JobStateChangedError,
    Progress,
    ProgressMark,
    batched,
    gather_limited,
    write_chunks,
)
from piecework.runtime import Runtime
from piecework.store.cancellation import (
    cancel_all_unclaimed,
    cancel_unclaimed,
    request_cancel,
    request_compensation,
)
from piecework.store.completion import all_chunks, read_chunk

#: Concurrent tasks of a sweep, and the chunks of each task.
SWEEPERS = 4
CHUNKS_PER_SWEEPER = 64


async def sweep(
    rt: Runtime, job: Job, progress: Progress = lambda *_: None
) -> tuple[int, int]:
    """Cancel the chunks of a job; return the number cancelled and requested.

    If the submit has not created all chunks, the sweep creates the missing ones first.
    From then on no late request of the submit can create any: see `Jobs.add_chunks`.
    The progress mark of a sweep keeps the reconcilers from a second sweep beside it.
    """
    if not job.opened_at:
        try:
            await write_chunks(rt, job)
        except JobStateChangedError:
            return 0, 0
    request = CancelRequest(job.cancelled_at, job.compensates_on_cancel)
    cancel_sweep = CancelSweep(rt, request, job.queue)
    swept, mark = Counter("swept", progress), ProgressMark(rt, job)

    async def some(chunks: list[Chunk]) -> None:
        await mark.write_if_due()
        # A later generation, started since the job was read, is not cancelled.
        ours = [c for c in chunks if not c.has_direction and c.gen <= job.gen]
        await cancel_sweep.sweep_all(ours)
        swept.add(len(chunks))

    # Workers keep claiming chunks while the sweep runs.
    newer: list[ChunkRef] = []
    chunks = all_chunks(rt.table, job.ref, job.chunks, newer)
    await gather_limited(some, batched(chunks, CHUNKS_PER_SWEEPER), SWEEPERS)
    await cancel_sweep.send()
    if not newer:  # otherwise a reconciler of the newer version sweeps them
        await finish_cancel(rt, job.ref)
    return cancel_sweep.cancelled, cancel_sweep.requested


@dataclass(slots=True)
class CancelSweep:
    """Cancels chunks of a job and counts them; `queue`: that of the job."""

    rt: Runtime
    cancel: CancelRequest
    queue: str = ""
    cancelled: int = 0
    requested: int = 0
    _messages: list[Message] = field(default_factory=list)

    async def sweep_all(self, chunks: Sequence[Chunk]) -> None:
        """Cancel some chunks, or request their owners to stop."""
        at_once = [chunk for chunk in chunks if self.ends_at_once(chunk)]
        now = self.rt.clock()
        changed = await cancel_all_unclaimed(self.rt.table, at_once, now)
        self.cancelled += len(at_once) - len(changed)
        for chunk in changed:
            await self.sweep_changed(chunk)
        for chunk in chunks:
            if not self.ends_at_once(chunk):
                await self.sweep(chunk)

    def ends_at_once(self, chunk: Chunk) -> bool:
        """Return whether a chunk is cancelled without a worker.

        A fence never falls: fence 0 means that no worker has ever started the chunk.
        """
        if chunk.status is ChunkStatus.RUNNING or chunk.status.ended:
            return False
        return not (self.cancel.compensate and chunk.fence)

    async def sweep(self, chunk: Chunk) -> None:
        """Cancel a chunk, or request its owner to stop."""
        if not await self.sweep_once(chunk):
            await self.sweep_changed(chunk)

    async def sweep_once(self, chunk: Chunk) -> bool:
        """Sweep a chunk as it was read; False: it has changed since."""
        if chunk.status.ended:
            return True
        if chunk.status is not ChunkStatus.RUNNING:
            return await self.sweep_waiting(chunk)
        if chunk.is_cancel_requested:
            return True
        requested = await request_cancel(self.rt.table, chunk, self.cancel)
        self.requested += requested
        return requested

    async def sweep_waiting(self, chunk: Chunk) -> bool:
        """Cancel or dispatch a chunk without an owner; False: a worker claimed it."""
        table, now = self.rt.table, self.rt.clock()
        if self.ends_at_once(chunk):
            cancelled = await cancel_unclaimed(table, chunk, now)
            self.cancelled += cancelled
            return cancelled
        # Requested before: unless it waits for a retry, its message is on its way.
        if chunk.is_cancel_requested and not chunk.retry_at:
            return True
        again = now + self.rt.settings.visibility_s
        requested = await request_compensation(table, chunk, self.cancel, again)
        if requested:
            await self.dispatch(chunk)
        return requested

    async def sweep_changed(self, seen: Chunk) -> None:
        """Sweep a chunk again that a worker claimed, gave back or ended meanwhile.

        The reconcilers sweep only half a minute after this sweep.
        """
        with suppress(SchemaTooNewError):
            chunk = await read_chunk(self.rt.table, seen.ref)
            if chunk is not None and chunk.gen == seen.gen and not chunk.has_direction:
                await self.sweep_once(chunk)

    async def dispatch(self, chunk: Chunk) -> None:
        """Queue the message of a chunk that a worker compensates."""
        self.requested += 1
        self._messages.append(Message.about(chunk.ref, chunk.gen))
        if len(self._messages) == BATCH:
            await self.send()

    async def send(self) -> None:
        """Send the queued messages."""
        messages, self._messages = self._messages, []
        if messages:
            await self.rt.work.send(messages, to=self.queue)
