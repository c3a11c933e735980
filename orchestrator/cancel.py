"""Cancel a job: say so on its record, then sweep its chunks."""

from __future__ import annotations

from collections.abc import Callable

from piecework.errors import NotFoundError, UsageError
from piecework.model import CANCELLABLE, Job, JobRef, JobStatus
from piecework.runtime import Runtime
from piecework.sweep import sweep


async def cancel(
    rt: Runtime,
    ref: JobRef,
    *,
    actor: str,
    reason: str,
    compensate: bool = False,
    stopping: Callable[[Job], None] = lambda _: None,
) -> Job:
    """Cancel a job and return it as it then stands: CANCELLING, or CANCELLED already.

    `stopping` hears of it once that is on record: who is stopped then has cancelled it.
    Asked twice, it sweeps twice. What has a result keeps it; chunks in hand are let
    go within about a second. What the others have done stays done, unless it is to be
    compensated: then they are wound back, up to their pivot.

    Raises:
        NotFoundError: `job.record.not_found`.
        UsageError: `job.state.not_cancellable`: it has ended, or is ending;
            `job.cancel.without_undo`: it is being cancelled already, without.
    """
    facts = {
        "cancelled_by": actor,
        "cancel_reason": reason,
        "cancel_code": "job.cancel.asked",
        "cancel_undoes": compensate,
    }
    job = await rt.jobs.read(ref)
    while job is not None and job.status in CANCELLABLE:
        if await rt.moves.cancel(job, facts):
            said = {"actor": actor, "reason": reason, "compensate": compensate}
            await rt.jobs.record(ref, "cancelled", said)
        job = await rt.jobs.read(ref)
    if job is None:
        message = f"There is no job {ref.job}."
        raise NotFoundError(message, code="job.record.not_found")
    if job.status is not JobStatus.CANCELLING:
        message = f"Job {ref.job} is {job.status}."
        raise UsageError(message, code="job.state.not_cancellable")
    stopping(job)
    await sweep(rt, job)
    if compensate and not job.compensates_on_cancel:
        message = f"Job {ref.job} is being cancelled, and nothing is undone."
        raise UsageError(message, code="job.cancel.without_undo")
    return await rt.jobs.read(ref) or job
