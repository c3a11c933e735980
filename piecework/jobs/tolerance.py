"""Tolerated failure: stop starting chunks once a job cannot succeed any more.

The transaction that writes a dead letter adds it to a counter of the job, if the job
tolerates any. A job has 32 counters, so that few of these transactions meet. When more
have failed than it tolerates, one write stops it. Chunks that have started go on to
their end, and the others are cancelled. Then the job ends by its results.
"""

from __future__ import annotations

from collections.abc import Sequence

from piecework.domain.chunk import Chunk
from piecework.domain.job import Job
from piecework.domain.refs import ChunkRef
from piecework.domain.states import ChunkStatus, JobStatus
from piecework.runtime import Runtime
from piecework.store.cancellation import cancel_all_unclaimed, cancel_unclaimed
from piecework.store.completion import read_chunk

#: Chunks that one transaction cancels.
CHUNKS_AT_ONCE = 64


async def stop_if_exceeded(rt: Runtime, job: Job, gen: int) -> bool:
    """Stop a job if more chunks have failed than it tolerates; return whether it is.

    `job` may be of an earlier generation than `gen`; its tolerance never changes.
    """
    failed = await rt.transitions.failed_chunks(job.ref, gen)
    if failed <= job.tolerated_chunks:
        return False
    now = await rt.jobs.read(job.ref)
    return now is not None and now.gen == gen and await stop(rt, now, failed)


async def stop_exceeded(rt: Runtime, job: Job) -> bool:
    """Stop a job as `stop_if_exceeded`, by its record of now."""
    if job.stopped_code or not job.tolerated_chunks:
        return bool(job.stopped_code)
    failed = await rt.transitions.failed_chunks(job.ref, job.gen)
    return failed > job.tolerated_chunks and await stop(rt, job, failed)


async def stop(rt: Runtime, job: Job, failed: int) -> bool:
    """Stop a RUNNING job, unless another process has; return whether it is stopped."""
    if job.status is not JobStatus.RUNNING or job.stopped_code:
        return bool(job.stopped_code)
    return await rt.transitions.stop_starting(job, failed)


def has_not_started(chunk: Chunk, job: Job) -> bool:
    """Return whether a chunk has not started in the generation of its job."""
    return chunk.status is ChunkStatus.PENDING and chunk.gen == job.gen


async def cancel_unstarted(rt: Runtime, ref: ChunkRef, job: Job) -> None:
    """Cancel a chunk of a stopped job, unless it has started."""
    chunk = await read_chunk(rt.table, ref)
    if chunk is not None and has_not_started(chunk, job):
        await cancel_unclaimed(rt.table, chunk, rt.clock())


async def cancel_all_unstarted(rt: Runtime, chunks: Sequence[Chunk]) -> int:
    """Cancel chunks that have not started, up to 256; return how many still had not."""
    cancelled = 0
    for first in range(0, len(chunks), CHUNKS_AT_ONCE):
        some = chunks[first : first + CHUNKS_AT_ONCE]
        changed = await cancel_all_unclaimed(rt.table, some, rt.clock())
        cancelled += len(some) - len(changed)
    return cancelled
