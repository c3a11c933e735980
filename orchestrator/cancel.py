"""Cancel a job: say so on its record, then sweep its chunks."""

from __future__ import annotations

from piecework.errors import NotFoundError, UsageError
from piecework.model import Job, JobRef, JobStatus
from piecework.runtime import Runtime
from piecework.sweep import sweep

CANCELLABLE = {JobStatus.SUBMITTING, JobStatus.RUNNING, JobStatus.RESUMING}


async def cancel(rt: Runtime, ref: JobRef, *, actor: str, reason: str) -> Job:
    """Cancel a job and return it as it then stands: CANCELLING, or CANCELLED already.

    Asked twice, it sweeps twice. What has a result keeps it; chunks in hand are let
    go within about a second; nothing that was done is undone.

    Raises:
        NotFoundError: `job.record.not_found`.
        UsageError: `job.state.not_cancellable`: it has ended, or is ending.
    """
    job = await rt.jobs.read(ref)
    while job is not None and job.status in CANCELLABLE:
        facts = {"cancelled_by": actor, "cancel_reason": reason}
        if await rt.moves.cancel(job, facts):
            await rt.jobs.record(ref, "cancelled", {"actor": actor, "reason": reason})
        job = await rt.jobs.read(ref)
    if job is None:
        message = f"There is no job {ref.job}."
        raise NotFoundError(message, code="job.record.not_found")
    if job.status is not JobStatus.CANCELLING:
        message = f"Job {ref.job} is {job.status}."
        raise UsageError(message, code="job.state.not_cancellable")
    await sweep(rt, job)
    return await rt.jobs.read(ref) or job
