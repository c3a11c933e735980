"""Pause a job, and resume it: any process may, each by one conditional write.

    RUNNING -> PAUSED      workers read the record of the job, and start no call
    PAUSED  -> RUNNING     the process that resumes sends the messages of open chunks

A worker deletes the messages of a paused job, so a resume sends each of them again. If
the process that resumes dies, a reconciler sends them once it has been quiet for 30 s.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from piecework.aws.queue import BATCH, Message
from piecework.domain.chunk import Chunk
from piecework.domain.job import Job
from piecework.domain.moments import moment
from piecework.domain.outcome import leaves_queue
from piecework.domain.refs import ChunkRef, JobRef
from piecework.domain.states import ChunkStatus, JobStatus
from piecework.jobs.fan_in import start_join
from piecework.jobs.fan_out import (
    SENDERS,
    Counter,
    Progress,
    ProgressMark,
    batched,
    gather_limited,
    pause_with_pipeline,
)
from piecework.runtime import Runtime
from piecework.store.completion import all_chunks


async def resume_job(
    rt: Runtime,
    job: Job,
    actor: str,
    reason: str,
    progress: Progress = lambda *_: None,
) -> bool:
    """End the pause of a job as it was read; return False if that pause has ended.

    A job whose sample runs starts its rest.
    """
    held = job.status is JobStatus.RUNNING and job.holds_rest
    end = rt.transitions.release_rest if held else rt.transitions.resume
    if not await end(job, actor, reason):
        return False
    await redispatch(rt, job.ref, progress)
    return True


async def redispatch(
    rt: Runtime, ref: JobRef, progress: Progress = lambda *_: None
) -> None:
    """Send the message of every open chunk of a resumed job, then record that.

    It may be repeated. A chunk that a worker owns needs no message. Its worker has one,
    and reads the job before it deletes that message. If the pipeline of the job is
    paused, this call pauses the job instead. The messages then wait for the resume of
    the pipeline.
    """
    job = await rt.jobs.read(ref)
    if job is None or job.status is not JobStatus.RUNNING:
        return
    if await pause_with_pipeline(rt, job):
        return
    await open_held_backlog(rt, job)
    sent, mark = Counter("sent", progress), ProgressMark(rt, job)

    async def send(refs: list[ChunkRef]) -> None:
        messages = [Message.about(ref, job.gen) for ref in refs]
        sent.add(await rt.work.send(messages, to=job.queue))
        await mark.write_if_due()

    await gather_limited(send, batched(open_chunks(rt, job), BATCH), SENDERS)
    await rt.transitions.redispatched(job)
    # The last chunk may have ended in the pause, when no join could start.
    join = None if sent.done else await start_join(rt, job)
    if join is not None:
        await rt.work.send([Message.about(*join)], to=job.queue)


async def open_held_backlog(rt: Runtime, job: Job) -> None:
    """Open the backlog that a sample has held back, and wake a worker."""
    start = job.backlog_start
    if start is None or not job.sample or job.holds_rest or job.gen > 1:
        return
    await rt.backlogs.open(job, start)
    if start == 0:
        await rt.work.send([Message.about(job.ref.chunk(0), job.gen)], to=job.queue)


def is_drawn(chunk: Chunk) -> bool:
    """Return whether workers draw a chunk of a backlog: no message of it was sent.

    A chunk that was unblocked has a time of its redispatch.
    """
    return chunk.status is ChunkStatus.PENDING and not chunk.redispatch_at


async def open_chunks(rt: Runtime, job: Job) -> AsyncIterator[ChunkRef]:
    """Yield the chunks that need a message: open, unowned, and due within minutes.

    Workers draw what is left of the backlog. A blocked chunk gets its message when it
    is unblocked.
    """
    newer: list[ChunkRef] = []
    backlog = None if job.backlog_start is None else await rt.backlogs.of_job(job)
    left = job.chunks if backlog is None else backlog.next
    async for chunk in all_chunks(rt.table, job.ref, job.chunks, newer):
        if chunk.status.ended or chunk.status is ChunkStatus.RUNNING:
            continue
        if chunk.blocked_by is not None or job.waits_for_sample(chunk.ref.chunk):
            continue
        if chunk.ref.chunk >= left and is_drawn(chunk):
            continue
        wait = moment(chunk.retry_at) - rt.clock() if chunk.retry_at else 0.0
        if not leaves_queue(wait):
            yield chunk.ref
    for ref in newer:
        yield ref
