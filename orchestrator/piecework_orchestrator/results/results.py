"""Read the chunks of a job that have ended, each with its result.

The chunks are read before the results: a chunk that has ended has its result.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Container, Iterable
from dataclasses import dataclass, field

from piecework.domain import keys
from piecework.domain.chunk import Chunk
from piecework.domain.job import Job
from piecework.domain.rows import StageRow
from piecework.domain.states import ChunkStatus
from piecework.errors import StateError
from piecework.runtime import Runtime
from piecework.store.completion import chunks_of_group, read_chunks
from piecework.store.results import NULL, ONE_BY_ONE, stored_results
from piecework_orchestrator.reading.job_documents import require_job
from piecework_orchestrator.reading.watch import poll_interval_s


@dataclass(frozen=True, slots=True)
class EndedChunk:
    """A chunk that has ended.

    Attributes:
        row: Its stored result, if it has one.
        error_code: Why it has no result, if it has none.
    """

    chunk: Chunk
    row: StageRow | None
    error_code: str

    @property
    def succeeded(self) -> bool:
        """Whether the chunk has a result."""
        return self.chunk.status is ChunkStatus.SUCCEEDED

    @property
    def code_version(self) -> str:
        """The code version that made the result, or of the last claim without one.

        A separate row may be of an earlier claim than the last one.
        """
        return (self.row or self.chunk).code_version


async def ended_chunks(rt: Runtime, job: Job) -> AsyncIterator[EndedChunk]:
    """Yield the chunks that have ended, by number."""
    for group in range(keys.partition_count(job.chunks)):
        for ended in await read_group(rt, job, group):
            yield ended


async def follow_ended_chunks(
    rt: Runtime, job: str, skip: Container[int] = ()
) -> AsyncIterator[EndedChunk]:
    """Yield every chunk when it ends, until the job has ended.

    `skip`: chunks to leave out.

    Raises:
        NotFoundError: `job.record.not_found`.
    """
    follower = Follower(rt, skip)
    while True:
        found = await require_job(rt, job)
        async for ended in follower.newly_ended(found):
            yield ended
        if found.status.ended:
            return
        await asyncio.sleep(poll_interval_s(found.chunks))


@dataclass(slots=True)
class Follower:
    """Finds every chunk when it ends, and again if it ends in another way.

    A group's tally says when to read its chunks; the last poll, of an ended job, reads
    all chunks.
    """

    rt: Runtime
    skip: Container[int] = ()
    _tallied: dict[int, frozenset[int]] = field(default_factory=dict)
    _seen: dict[int, tuple[str, int]] = field(default_factory=dict)

    async def newly_ended(self, job: Job) -> AsyncIterator[EndedChunk]:
        """Yield the chunks that have ended since the last poll."""
        for group in range(keys.partition_count(job.chunks)):
            new = await self._newly_tallied(job, group)
            if not new and not job.status.ended:
                continue
            wanted = None if job.status.ended else new
            for ended in await read_group(self.rt, job, group, wanted):
                number = ended.chunk.ref.chunk
                mark = (str(ended.chunk.status), ended.chunk.gen)
                if number not in self.skip and self._seen.get(number) != mark:
                    self._seen[number] = mark
                    yield ended

    async def _newly_tallied(self, job: Job, group: int) -> frozenset[int]:
        seen = self._tallied.get(group, frozenset())
        if len(seen) == keys.partition_size(group, job.chunks) and job.gen == 1:
            return frozenset()  # full, and only a reopening removes chunks
        ended = await self.rt.tallies.ended_of_group(job.ref, group)
        self._tallied[group] = ended
        return frozenset(n for n in ended - seen if n not in self.skip)


async def read_group(
    rt: Runtime, job: Job, group: int, wanted: Iterable[int] | None = None
) -> list[EndedChunk]:
    """Return the chunks of a group that have ended, all or the wanted ones."""
    pk = keys.partition_pk(job.ref.tenant, job.ref.job, group)
    if wanted is not None and len(numbers := sorted(wanted)) <= ONE_BY_ONE:
        found = await read_chunks(rt.table, map(job.ref.chunk, numbers))
    else:
        found = [chunk async for chunk in chunks_of_group(rt.table, job.ref, group)]
    ended = [chunk for chunk in found if chunk.status.ended]
    rows = await stored_results(rt.table, pk, ended)
    code = await stop_code(rt, job, ended)
    return [EndedChunk(chunk, row, chunk.error_code or code) for chunk, row in rows]


async def stop_code(rt: Runtime, job: Job, ended: Iterable[Chunk]) -> str:
    """Return why a job stopped the chunks that have no code of their own.

    The job is read again if it was stopped after it was read.
    """
    cancelled = (chunk for chunk in ended if chunk.status is ChunkStatus.CANCELLED)
    if all(chunk.error_code for chunk in cancelled):
        return ""
    if not (job.cancelled_by or job.stopped_code):
        job = await require_job(rt, job.ref.job)
    return job.stopped_code or job.cancel_code


async def result_json(rt: Runtime, ended: EndedChunk) -> str:
    """Return the result of a succeeded chunk as JSON, checked by its hash.

    Raises:
        StateError: `runtime.state.checkpoint_corrupt`: the stored result is not the
            one that the chunk settled with; `runtime.object.missing`.
        PermanentError: The stored result was changed.
    """
    chunk = ended.chunk
    prefix = keys.object_prefix(chunk.ref.tenant, chunk.ref.job)
    if ended.row is None:
        text = NULL
    else:
        text = await rt.objects.get_value(ended.row, prefix)
    if keys.sha256(text.encode()) != chunk.result_sha256:
        message = f"The stored result of chunk {chunk.ref} does not match its hash."
        raise StateError(message, code="runtime.state.checkpoint_corrupt")
    return text
