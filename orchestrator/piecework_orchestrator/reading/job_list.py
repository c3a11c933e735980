"""List the jobs of a tenant with their progress.

The chunks of a small job are counted one by one. Those of a large job are counted from
its tallies, see `MAX_COUNTED_CHUNKS`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from piecework.domain import keys
from piecework.domain.job import Job
from piecework.domain.moments import iso
from piecework.domain.refs import JobRef
from piecework.domain.states import JobStatus
from piecework.domain.tags import has_tags
from piecework.errors import UsageError
from piecework.reading import Reading
from piecework.store.completion import Tallies
from piecework.store.table import GETS_AT_ONCE
from piecework_orchestrator.reading.job_documents import Document, job_facts
from piecework_orchestrator.reading.times import parse_limit

#: Chunks of the largest job whose chunks are counted one by one: four queries. Of a
#: larger job the full groups are counted, which stand on the job's own item.
MAX_COUNTED_CHUNKS = 4 * keys.PARTITION_SIZE
#: Jobs of the first read: a little more than `jobs list` shows.
FIRST_BATCH = 25


def parse_status(status: str, statuses: type[StrEnum]) -> str:
    """Return a status in upper case, as it is stored.

    Raises:
        UsageError: `cli.usage.invalid`, naming the valid statuses.
    """
    names = [str(each) for each in statuses]
    if status.upper() not in names:
        message = f"{status} is not a status."
        raise UsageError(message, next_step=f"Use one of {', '.join(names)}.")
    return status.upper()


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Filters of jobs.

    Attributes:
        statuses: Empty: all.
        pipeline: `review*` matches all pipelines that begin so.
        since_s: Seconds within which the jobs were created; None: at any time.
        tags: The job has all of these.
    """

    statuses: frozenset[str] = frozenset()
    pipeline: str = "*"
    since_s: float | None = None
    tags: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(
        cls,
        statuses: Iterable[str],
        pipeline: str,
        since: str,
        tags: Mapping[str, str],
    ) -> JobFilter:
        """Return the filter that words express; a status in any case.

        Raises:
            UsageError: `cli.usage.invalid`.
        """
        known = frozenset(parse_status(status, JobStatus) for status in statuses)
        return cls(known, pipeline, parse_limit(since), tags)

    def matches(self, job: Job) -> bool:
        """Return whether a job matches, whose pipeline and time have been compared."""
        known = not self.statuses or str(job.status) in self.statuses
        return known and has_tags(job.tags, self.tags)


async def read_jobs(
    rt: Reading, wanted: JobFilter, too_new: list[JobRef]
) -> AsyncIterator[Document]:
    """Yield a tenant's jobs with their progress, the newest first.

    Jobs that a newer version wrote cannot be read; they are added to `too_new`.
    """
    since = "" if wanted.since_s is None else iso(rt.clock() - wanted.since_s)
    listed = rt.jobs.listed(rt.settings.tenant, wanted.pipeline, since)
    async for refs in batches(listed):
        jobs, newer = await rt.jobs.read_many(refs)
        too_new += newer
        found = [job for job in jobs.values() if wanted.matches(job)]
        progress = await progress_of_all(rt, found)
        for job in found:
            yield {**job_facts(job, rt.clock()), **progress[job.ref]}


async def batches(refs: AsyncIterator[JobRef]) -> AsyncIterator[list[JobRef]]:
    """Yield jobs by the hundred, as one request reads them; the first ones sooner."""
    some: list[JobRef] = []
    most = FIRST_BATCH
    async for ref in refs:
        some.append(ref)
        if len(some) == most:
            yield some
            some, most = [], GETS_AT_ONCE
    if some:
        yield some


async def progress_of(rt: Reading, job: Job) -> Document:
    """Return the number of ended chunks, and the outcomes of an ended job."""
    return (await progress_of_all(rt, [job]))[job.ref]


async def progress_of_all(rt: Reading, jobs: Sequence[Job]) -> dict[JobRef, Document]:
    """Return the progress of jobs; a hundred tallies are one request."""
    known = {job.ref: progress_on(job) for job in jobs}
    counted = [job for job in jobs if known[job.ref] is None]
    groups = [
        (j.ref, g) for j in counted for g in range(keys.partition_count(j.chunks))
    ]
    ended = await Tallies(rt.table).ended_of(groups)
    return {
        ref: {"ended_chunks": ended[ref]} if found is None else found
        for ref, found in known.items()
    }


def progress_on(job: Job) -> Document | None:
    """Return the progress that stands on the item of a job; None: tallies tell it."""
    if not job.status.is_open:
        outcomes = dict(job.outcomes or {})
        return {"ended_chunks": sum(outcomes.values()), "outcomes": outcomes}
    if job.status is JobStatus.SUBMITTING:
        return {"ended_chunks": 0}
    if job.chunks > MAX_COUNTED_CHUNKS:
        return {"ended_chunks": job.ended_at_least}
    return None
