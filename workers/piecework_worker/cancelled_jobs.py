"""Decide by the record of a job that a message starts nothing, before any claim.

    the job                                              the message
    is in a later generation than the message            is deleted
    has ended in the generation of the message           is deleted
    is cancelled, and the chunk needs no worker          is deleted; the sweep ends it
    is cancelled, and the chunk may need a worker        is handled, after a sweep of it
    is paused                                            is deleted; the resume sends it
    is paused, and the chunk compensates                 is handled
    has failed too often, and the chunk has not started  is handled, after its cancel

So no further chunk starts once the workers have read the cancelled job. The number of
unmarked chunks does not matter. One query answers for the 256 chunks of a group. So the
messages of a cancelled job pass as fast as SQS deletes them.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TypeAlias

from piecework.domain import keys
from piecework.domain.job import Job
from piecework.domain.protocols import CancelRequest
from piecework.domain.refs import ChunkRef, JobRef
from piecework.domain.states import ChunkStatus, JobStatus
from piecework.jobs.cancellation import CancelSweep
from piecework.jobs.tolerance import cancel_unstarted
from piecework.runtime import Runtime
from piecework.store.completion import chunks_of_group, read_chunk

#: Seconds for which the answer of a group is used, and the groups that are kept. An
#: unclaimed chunk without a direction gets none: only a claim decides its direction.
GROUP_TTL_S = 5.0
MAX_GROUPS = 1_000


#: A job, its generation, the number of a group, and whether the job is paused.
GroupKey: TypeAlias = tuple[JobRef, int, int, bool]


@dataclass(slots=True)
class CancelledGroups:
    """Which chunks of cancelled or paused jobs may need a worker, read by group."""

    _groups: dict[GroupKey, tuple[float, asyncio.Task[frozenset[int]]]] = field(
        default_factory=dict
    )

    async def may_need_worker(
        self, rt: Runtime, ref: ChunkRef, gen: int, *, paused: bool = False
    ) -> bool:
        """Return whether a chunk is claimed, has a direction, or was reopened since.

        A claimed chunk of a `paused` job needs no other worker.
        """
        key = ref.of, gen, keys.group_of(ref.chunk), paused
        now = asyncio.get_running_loop().time()
        found = self._groups.get(key)
        if found is None or now - found[0] >= GROUP_TTL_S or has_failed(found[1]):
            if len(self._groups) >= MAX_GROUPS:
                self._groups.clear()
            read = needing_workers(rt, ref.of, key[2], gen, paused=paused)
            task = asyncio.create_task(read)
            found = self._groups[key] = now, task
        return ref.chunk in await asyncio.shield(found[1])


def has_failed(read: asyncio.Task[frozenset[int]]) -> bool:
    """Return whether a read has ended without an answer."""
    return read.done() and (read.cancelled() or read.exception() is not None)


async def needing_workers(
    rt: Runtime, ref: JobRef, group: int, gen: int, *, paused: bool = False
) -> frozenset[int]:
    """Return the chunks of a group that a cancel does not simply end."""
    newer: list[ChunkRef] = []
    needing = [
        chunk.ref.chunk
        async for chunk in chunks_of_group(rt.table, ref, group, newer)
        if (chunk.status is ChunkStatus.RUNNING and not paused)
        or (chunk.has_direction and not chunk.status.ended)
        or chunk.gen > gen
    ]
    return frozenset([*needing, *(chunk.chunk for chunk in newer)])


async def reason_not_to_claim(  # noqa: PLR0911 -- one return for each row of the table
    ref: ChunkRef, gen: int, job: Job, rt: Runtime, groups: CancelledGroups
) -> str:
    """Return why the message of a chunk in generation `gen` starts nothing, or ``."""
    if job.status.gone:
        return "job deleted"
    if ref.is_join or gen > job.gen:
        return ""
    if gen < job.gen:
        # A job is reopened only after all its chunks have ended.
        return "superseded"
    if job.status.ended:
        return "ended"
    if job.status is JobStatus.PAUSED:
        compensates = await groups.may_need_worker(rt, ref, gen, paused=True)
        return "" if compensates else "paused"
    if job.stopped_code and job.status is JobStatus.RUNNING:
        await cancel_unstarted(rt, ref, job)
    if job.status is not JobStatus.CANCELLING:
        return ""
    request = CancelRequest(job.cancelled_at, job.compensates_on_cancel)
    if not request.compensate and not await groups.may_need_worker(rt, ref, gen):
        return "cancelled"
    chunk = await read_chunk(rt.table, ref)
    if chunk is not None and chunk.gen == gen and not chunk.has_direction:
        await CancelSweep(rt, request, job.queue).sweep(chunk)
    return ""
