"""Go on with a job whose process has died, at once instead of after its leases.

The lock of the state file tells that no other process works on the job. So each lease
has lost its owner, and each message is gone.
"""

from __future__ import annotations

from piecework.aws.queue import BATCH, Message
from piecework.domain import keys
from piecework.domain.job import Job
from piecework.domain.refs import ChunkRef
from piecework.domain.states import ChunkStatus, JobStatus
from piecework.jobs.children import tell_parent
from piecework.jobs.fan_out import SENDERS, batched, fan_out, gather_limited
from piecework.jobs.pausing import open_chunks
from piecework.runtime import Runtime
from piecework.store.children import children_of
from piecework.store.completion import all_chunks, read_chunk


async def go_on(rt: Runtime, job: Job) -> None:
    """Free the leases of the dead process, and send the message of each open chunk.

    The same for the children of the job, and what they owed to each other.
    """
    if job.status.ended:
        await tell_parent(rt, job.ref)
        return
    async for row in children_of(rt.table, job.ref):
        if (child := await rt.jobs.read(row.ref(job.ref))) is not None:
            await go_on(rt, child)
    if job.parent is not None and not job.sent_at:
        await fan_out(rt, job)
        return
    await free_leases(rt, job)
    join_ref = job.ref.chunk(keys.JOIN_CHUNK)
    join = await read_chunk(rt.table, join_ref)
    if job.status in {JobStatus.SUBMITTING, JobStatus.PAUSED}:
        return  # its fan-out sends them; so does its resume
    if join is not None and not join.status.ended:
        await rt.work.send([Message.about(join_ref, job.gen)], to=job.queue)

    async def send(refs: list[ChunkRef]) -> None:
        messages = [Message.about(ref, job.gen) for ref in refs]
        await rt.work.send(messages, to=job.queue)

    await gather_limited(send, batched(open_chunks(rt, job), BATCH), SENDERS)


async def free_leases(rt: Runtime, job: Job) -> None:
    """Free the leases of the dead process."""
    async for chunk in all_chunks(rt.table, job.ref, job.chunks):
        if chunk.status is ChunkStatus.RUNNING:
            await rt.takeovers.release_expired(chunk)
    join = await read_chunk(rt.table, job.ref.chunk(keys.JOIN_CHUNK))
    if join is not None and join.status is ChunkStatus.RUNNING:
        await rt.takeovers.release_expired(join)


async def count_done(rt: Runtime, job: Job) -> int:
    """Return how many chunks of a job have a result."""
    chunks = all_chunks(rt.table, job.ref, job.chunks)
    return sum([chunk.status is ChunkStatus.SUCCEEDED async for chunk in chunks])
