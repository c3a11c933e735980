"""Hand dead chunks out again, after what killed them was fixed: an act on the record.

    job -> RUNNING, next generation; tallies; chunk DEAD -> PENDING; dead letter; message

The messages of the dead-letter queue have no part in it. A redriven chunk goes on at
its first stage that is not done: what it had paid for and done is not repeated, and
its provider keys are fresh, so that a stored failure does not answer for ever.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from piecework import keys
from piecework.errors import NotFoundError, UsageError
from piecework.model import Chunk, ChunkRef, ChunkStatus, Job, JobRef, JobStatus
from piecework.queue import Message
from piecework.runtime import Runtime
from piecework.store.dead_letters import DeadLetters
from piecework.store.reopen import reopen_chunk

REDRIVABLE = {JobStatus.PARTIAL, JobStatus.FAILED}


@dataclass(frozen=True, slots=True)
class Redrive:
    """What a person asked for, and who it was."""

    ref: JobRef
    letters: Sequence[dict[str, Any]]
    actor: str
    reason: str


async def redrive(rt: Runtime, asked: Redrive) -> tuple[int, int]:
    """Redrive the dead letters of a job; return how many, and the new generation.

    Stopped half-way it can simply be asked for again: a chunk that is not dead any
    more is left alone, and the reconciler sends what was reopened and not sent.

    Raises:
        NotFoundError: `job.record.not_found`.
        UsageError: `redrive.job.running`: the job has to end first.
    """
    job = await redrivable(rt, asked.ref)
    gen = job.gen
    if job.status is not JobStatus.RUNNING:
        facts = {"redriven_by": asked.actor, "redrive_reason": asked.reason}
        reopened = await rt.jobs.reopen(job, facts)
        if reopened is None:
            return await redrive(rt, asked)
        gen = reopened
    chunks = [row for row in asked.letters if row["chunk"] != keys.JOIN_CHUNK]
    await forget_ends(rt, asked.ref, chunks)
    done = [row for row in chunks if await reopen(rt, asked, row, gen)]
    refs = [asked.ref.chunk(row["chunk"]) for row in done]
    await rt.work.send([Message.about(ref, gen) for ref in refs])
    await rt.jobs.record(
        asked.ref,
        "redriven",
        {
            "actor": asked.actor,
            "reason": asked.reason,
            "gen": gen,
            "chunks": [ref.chunk for ref in refs],
        },
    )
    return len(done), gen


async def redrivable(rt: Runtime, ref: JobRef) -> Job:
    """Return the job if its dead letters may be redriven.

    A job that an unfinished redrive has reopened may be redriven again; one that has
    not ended by itself may not, since its join would then be decided twice.

    Raises:
        NotFoundError: `job.record.not_found`.
        UsageError: `redrive.job.running`.
    """
    job = await rt.jobs.read(ref)
    if job is None:
        message = f"There is no job {ref.job}."
        raise NotFoundError(message, code="job.record.not_found")
    reopened = job.status is JobStatus.RUNNING and "redriven_by" in job.item
    if job.status not in REDRIVABLE and not reopened:
        message = f"Job {ref.job} is {job.status}."
        raise UsageError(
            message,
            code="redrive.job.running",
            next_step=f"`piecework jobs watch {ref.job}`, then redrive.",
        )
    return job


async def forget_ends(
    rt: Runtime, ref: JobRef, letters: Sequence[dict[str, Any]]
) -> None:
    """Take the chunks out of the tallies, before they can be counted anew."""
    groups: dict[int, set[int]] = defaultdict(set)
    for row in letters:
        groups[keys.group_of(row["chunk"])].add(row["chunk"])
    for group, numbers in groups.items():
        await rt.tallies.remove(ref, group, numbers)


async def reopen(rt: Runtime, asked: Redrive, row: dict[str, Any], gen: int) -> bool:
    """Reopen one dead chunk and note it on its dead letter; False if it is not dead."""
    ref: ChunkRef = asked.ref.chunk(row["chunk"])
    item = await rt.table.get(ref.pk, ref.sk)
    if item is None:
        return False
    chunk = Chunk.read(ref, item)
    if chunk.status is not ChunkStatus.DEAD or chunk.gen != row["gen"]:
        return False
    if not await reopen_chunk(rt.table, chunk, gen):
        return False
    letters = DeadLetters(rt.dead_letters, rt.settings, rt.clock)
    await letters.redriven(
        ref, row["gen"], next_gen=gen, actor=asked.actor, reason=asked.reason
    )
    return True
