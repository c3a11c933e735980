"""List the jobs of a tenant with their progress.

The chunks of a small job are counted one by one. Those of a large job are counted from
its tallies, see `MAX_COUNTED_CHUNKS`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from piecework.domain import keys
from piecework.domain.job import Job
from piecework.domain.moments import iso
from piecework.domain.refs import JobRef
from piecework.domain.states import JobStatus
from piecework.domain.tags import has_tags
from piecework.errors import SchemaTooNewError, UsageError
from piecework.reading import Reading
from piecework.store.completion import Tallies
from piecework_orchestrator.reading.job_documents import Document, job_facts
from piecework_orchestrator.reading.times import parse_limit

#: Chunks of the largest job whose chunks are counted one by one: four queries. Of a
#: larger job the full groups are counted, which stand on the job's own item.
MAX_COUNTED_CHUNKS = 4 * keys.PARTITION_SIZE


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
    async for ref in rt.jobs.listed(rt.settings.tenant, wanted.pipeline, since):
        try:
            job = await rt.jobs.read(ref)
        except SchemaTooNewError:
            too_new.append(ref)
            continue
        if job is None:
            continue
        if wanted.matches(job):
            yield {**job_facts(job, rt.clock()), **await progress_of(rt, job)}


async def progress_of(rt: Reading, job: Job) -> Document:
    """Return the number of ended chunks, and the outcomes of an ended job."""
    if not job.status.is_open:
        outcomes = dict(job.outcomes or {})
        return {"ended_chunks": sum(outcomes.values()), "outcomes": outcomes}
    if job.status is JobStatus.SUBMITTING:
        return {"ended_chunks": 0}
    if job.chunks > MAX_COUNTED_CHUNKS:
        return {"ended_chunks": job.ended_at_least}
    return {"ended_chunks": await Tallies(rt.table).count_ended(job.ref, job.chunks)}
