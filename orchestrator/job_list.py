"""List the jobs of a tenant with their progress."""

from __future__ import annotations

from collections.abc import AsyncIterator

from orchestrator.inspector import MAX_COUNTED_CHUNKS, Document, job_facts
from piecework.errors import SchemaTooNewError
from piecework.model import Job, JobRef, JobStatus
from piecework.runtime import Runtime
from piecework.store.tallies import Tallies, ended_at_least


async def read_jobs(
    rt: Runtime, status: str | None, too_new: list[JobRef]
) -> AsyncIterator[Document]:
    """Yield a tenant's jobs with their progress, the newest first.

    Jobs that a newer version wrote cannot be read; they are added to `too_new`.
    """
    async for ref in rt.jobs.listed(rt.settings.tenant):
        try:
            job = await rt.jobs.read(ref)
        except SchemaTooNewError:
            too_new.append(ref)
            continue
        if job is not None and status in (None, str(job.status)):
            yield {**job_facts(job), **await progress_of(rt, job)}


async def progress_of(rt: Runtime, job: Job) -> Document:
    """Return the number of ended chunks, and the outcomes of an ended job."""
    if job.status.ended:
        outcomes = dict(job.item.get("outcomes", {}))
        return {"ended_chunks": sum(outcomes.values()), "outcomes": outcomes}
    if job.status is JobStatus.SUBMITTING:
        return {"ended_chunks": 0}
    if job.chunks > MAX_COUNTED_CHUNKS:
        return {"ended_chunks": ended_at_least(job.item)}
    return {"ended_chunks": await Tallies(rt.table).count_ended(job.ref, job.chunks)}
