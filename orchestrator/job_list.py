"""The list of a tenant's jobs, each with how far it is."""

from __future__ import annotations

from collections.abc import AsyncIterator

from orchestrator.inspector import LOOKED_AT, Document, job_facts
from piecework.errors import SchemaTooNewError
from piecework.model import Job, JobRef, JobStatus
from piecework.runtime import Runtime
from piecework.store.tallies import Tallies, ended_at_least


async def listed_jobs(
    rt: Runtime, status: str | None, newer: list[JobRef]
) -> AsyncIterator[Document]:
    """Yield a tenant's jobs, the newest first, each with how far it is.

    Those of a later version go into the list.
    """
    async for ref in rt.jobs.listed(rt.settings.tenant):
        try:
            job = await rt.jobs.read(ref)
        except SchemaTooNewError:
            newer.append(ref)
            continue
        if job is not None and status in (None, str(job.status)):
            yield {**job_facts(job), **await how_far(rt, job)}


async def how_far(rt: Runtime, job: Job) -> Document:
    """Return how many chunks have ended, and of an ended job how they did."""
    if job.status.ended:
        outcomes = dict(job.item.get("outcomes", {}))
        return {"settled": sum(outcomes.values()), "outcomes": outcomes}
    if job.status is JobStatus.SUBMITTING:
        return {"settled": 0}
    if job.chunks > LOOKED_AT:
        return {"settled": ended_at_least(job.item)}
    return {"settled": await Tallies(rt.table).settled(job.ref, job.chunks)}
