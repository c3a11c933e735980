"""Take a job up again that was cancelled, or that ended without some of its chunks.

    job -> RESUMING, next generation -> tallies -> chunks -> RUNNING -> messages

Chunks that have a result keep it. The others go on at their first stage that is not
done: what they had paid for and done is not repeated. Stopped half-way it can simply
be asked for again, and the reconciler goes on if nobody does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from piecework import keys
from piecework.errors import NotFoundError, UsageError
from piecework.fanout import fan_out
from piecework.finish import begin_finish
from piecework.model import Chunk, ChunkRef, ChunkStatus, Job, JobRef, JobStatus, iso
from piecework.queue import Message
from piecework.runtime import Runtime
from piecework.store.census import all_chunks
from piecework.store.reopen import reopen_chunk

RESUMABLE = {JobStatus.PARTIAL, JobStatus.FAILED, JobStatus.CANCELLED}


@dataclass(frozen=True, slots=True)
class Resume:
    """What a person asked for, and who it was.

    Attributes:
        deadline: A new one. Without it one that lies ahead stands, and one that has
            passed goes: it would cancel the job again at once.
    """

    ref: JobRef
    actor: str
    reason: str
    deadline: float | None = None


async def resume(rt: Runtime, asked: Resume) -> tuple[int, int]:
    """Take up every chunk that has no result; return how many, and the generation.

    Raises:
        NotFoundError: `job.record.not_found`.
        UsageError: `job.state.not_finished`.
    """
    job = await resumable(rt, asked.ref)
    chunks = [
        chunk
        async for chunk in all_chunks(rt.table, asked.ref, job.chunks)
        if chunk.status in {ChunkStatus.DEAD, ChunkStatus.CANCELLED}
    ]
    taken_up, gen = await reopen(rt, job, chunks, asked, "resumed")
    return len(taken_up), gen


async def resumable(rt: Runtime, ref: JobRef) -> Job:
    """Return the job if it may be taken up again.

    Raises:
        NotFoundError: `job.record.not_found`.
        UsageError: `job.state.not_finished`.
    """
    job = await rt.jobs.read(ref)
    if job is None:
        message = f"There is no job {ref.job}."
        raise NotFoundError(message, code="job.record.not_found")
    if job.status not in {*RESUMABLE, JobStatus.RESUMING}:
        message = f"Job {ref.job} is {job.status}."
        raise UsageError(
            message,
            code="job.state.not_finished",
            next_step=f"`piecework jobs watch {ref.job}`, then ask again.",
        )
    return job


async def reopen(
    rt: Runtime, job: Job, chunks: Sequence[Chunk], asked: Resume, event: str
) -> tuple[list[ChunkRef], int]:
    """Reopen chunks of an ended job and hand them out; return which, and the gen."""
    if job.status is not JobStatus.RESUMING:
        facts = {"resumed_by": asked.actor, "resume_reason": asked.reason}
        if asked.deadline is not None:
            facts["deadline_at"] = iso(asked.deadline)
        if await rt.moves.reopen(job, facts) is None:
            return await reopen(
                rt, await resumable(rt, asked.ref), chunks, asked, event
            )
        job = await rt.jobs.read(asked.ref) or job
    await forget_ends(rt, asked.ref, [chunk.ref.chunk for chunk in chunks])
    refs = [c.ref for c in chunks if await reopen_chunk(rt.table, c, job.gen)]
    await rt.moves.resume(job)
    await hand_out(rt, asked.ref, refs, job.gen)
    noted: dict[str, Any] = {
        "actor": asked.actor,
        "reason": asked.reason,
        "gen": job.gen,
        "chunks": len(refs),
    }
    await rt.jobs.record(asked.ref, event, noted)
    return refs, job.gen


async def forget_ends(rt: Runtime, ref: JobRef, numbers: Sequence[int]) -> None:
    """Take chunks out of the tallies, before they can be counted anew."""
    groups: dict[int, set[int]] = defaultdict(set)
    for number in numbers:
        groups[keys.group_of(number)].add(number)
    for group, ended in groups.items():
        await rt.tallies.remove(ref, group, ended)


async def hand_out(
    rt: Runtime, ref: JobRef, refs: Sequence[ChunkRef], gen: int
) -> None:
    """Send the reopened chunks; finish a submit or a job that waits for none."""
    job = await rt.jobs.read(ref)
    if job is not None and job.status is JobStatus.SUBMITTING:
        await fan_out(rt, job)
        return
    await rt.work.send([Message.about(chunk, gen) for chunk in refs])
    if not refs:
        begun = await begin_finish(rt, ref)
        if begun is not None:
            await rt.work.send([Message.about(*begun)])
