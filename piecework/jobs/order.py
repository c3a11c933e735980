"""Let the next chunk of an order key go on, and repair what a crash left behind.

    a worker settles a chunk       unblocks the next one, then starts it in its turn
    an operator skips a dead one   unblocks the next one, then sends its message
    the reconciler, each pass      does so for each chunk that still waits in vain

A key is stopped while its first chunk without a result is a dead letter. The other keys
go on. When only chunks of stopped keys are left, the reconciler ends them, so that the
job ends. A redrive reopens them together with the dead chunk. After a skip, a retry
reopens them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from piecework.aws.queue import Message
from piecework.domain import keys
from piecework.domain.chunk import Chunk
from piecework.domain.job import Job
from piecework.domain.moments import moment
from piecework.domain.outcome import STOPPED_CODE, leaves_queue
from piecework.domain.refs import JobRef
from piecework.domain.states import ChunkStatus
from piecework.runtime import Runtime
from piecework.store.completion import all_chunks, chunks_of_group, read_chunk
from piecework.store.order import allows_next, end_stopped, unblock

#: Chunks that one transaction ends; it may check as many.
CHUNKS_AT_ONCE = 50


async def unblock_next(rt: Runtime, settled: Chunk) -> Chunk | None:
    """Unblock the chunk that follows a settled one; None: no chunk waited for it."""
    if settled.followed_by is None:
        return None
    ref = settled.ref.of.chunk(settled.followed_by)
    again = rt.clock() + rt.settings.visibility_s
    found = await unblock(rt.table, ref, settled.ref.chunk, again)
    return None if found is None or found.status.ended else found


async def start_next(rt: Runtime, settled: Chunk, queue: str) -> None:
    """Unblock the chunk that follows a settled one, and send it to its job's queue.

    It may be repeated: only one process unblocks the chunk. If that one dies before it
    sends the message, the reconciler sends it.
    """
    chunk = await unblock_next(rt, settled)
    if chunk is not None:
        await send_unblocked(rt, chunk, queue)


async def send_unblocked(rt: Runtime, chunk: Chunk, queue: str) -> None:
    """Send the message of a chunk that was unblocked, unless it waits for long."""
    wait = moment(chunk.retry_at) - rt.clock() if chunk.retry_at else 0.0
    if not leaves_queue(wait):
        message = Message.about(chunk.ref, chunk.gen)
        await rt.work.send([message], to=queue, delay_s=max(0.0, wait))


@dataclass(slots=True)
class BlockedChunks:
    """The chunks of an ordered job that one pass has read.

    Attributes:
        open: Those that have not ended.
        stops: The dead and the cancelled ones: each stops its key.
    """

    open: set[int] = field(default_factory=set)
    stops: set[int] = field(default_factory=set)
    #: The number of each blocked chunk, by the number of the chunk before it.
    blocked: dict[int, int] = field(default_factory=dict)

    def note(self, chunk: Chunk) -> bool:
        """Record a chunk; return whether it is blocked."""
        if chunk.status.ended:
            if not allows_next(chunk):
                self.stops.add(chunk.ref.chunk)
            return False
        self.open.add(chunk.ref.chunk)
        if chunk.blocked_by is not None:
            self.blocked[chunk.blocked_by] = chunk.ref.chunk
        return chunk.blocked_by is not None

    async def repair(self, rt: Runtime, ref: JobRef) -> list[Chunk]:
        """Unblock each chunk behind a settled one; return those that are open."""
        found = []
        for before in self.blocked.keys() - self.open - self.stops:
            chunk = await read_chunk(rt.table, ref.chunk(before))
            if chunk is None or not chunk.status.ended:
                self.open.add(before)  # it was reopened or unblocked meanwhile
            elif allows_next(chunk):
                following = await unblock_next(rt, chunk)
                self.open.add(before)
                found += [following] if following is not None else []
        return found

    @property
    def is_stopped(self) -> bool:
        """Whether all open chunks are behind dead letters, after the repair."""
        return bool(self.open) and len(self.open) == len(self.blocked)


async def end_stopped_chunks(rt: Runtime, job: Job, groups: Iterable[int]) -> int:
    """End the chunks behind the dead letters of a job; return how many.

    A key may have gone on since the chunks were read. It keeps its chunks: the chunk
    before them is open, so no later write ends them.
    """
    ended = 0
    for group in sorted(groups):
        chunks = [
            chunk
            async for chunk in chunks_of_group(rt.table, job.ref, group)
            if chunk.blocked_by is not None and not chunk.status.ended
        ]
        for first in range(0, len(chunks), CHUNKS_AT_ONCE):
            some = chunks[first : first + CHUNKS_AT_ONCE]
            ended += await end_stopped(rt.table, some, rt.clock())
    return ended


async def chunks_behind(rt: Runtime, job: Job, dead: Mapping[str, int]) -> list[Chunk]:
    """Return the ended chunks behind dead ones, in order.

    `dead`: the number of a dead chunk of each stopped key.
    """
    return [
        chunk.to_reopen()
        async for chunk in all_chunks(rt.table, job.ref, job.chunks)
        if chunk.status is ChunkStatus.CANCELLED
        and chunk.error_code == STOPPED_CODE
        and chunk.ref.chunk > dead.get(chunk.order_key, keys.MAX_CHUNK_NUMBER)
    ]
