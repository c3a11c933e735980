"""Cancel a job: record the cancel on the job, then sweep its chunks."""

from __future__ import annotations

from collections.abc import Callable

from piecework.domain.job import Job
from piecework.domain.refs import JobRef
from piecework.domain.states import CANCELLABLE, JobStatus
from piecework.errors import NotFoundError, UsageError
from piecework.jobs.cancellation import sweep
from piecework.jobs.children import follow_children
from piecework.jobs.fan_out import Progress
from piecework.runtime import Runtime


async def cancel(
    rt: Runtime,
    ref: JobRef,
    *,
    actor: str,
    reason: str,
    compensate: bool = False,
    on_recorded: Callable[[Job], None] = lambda _: None,
    progress: Progress = lambda *_: None,
) -> Job:
    """Cancel a job and return it: its status is CANCELLING, or CANCELLED already.

    `on_recorded` is called when the cancel is stored. From then on no worker claims a
    chunk of the job. The job is cancelled even if this call is interrupted. `progress`
    is called while the chunks are marked. A repeated cancel continues, and returns a
    job that is CANCELLED by then. Chunks that have a result keep it; workers stop the
    running chunks within about a second. Open chunks keep their effects unless
    `compensate` is true: then their effects are compensated, except past the pivot.

    Raises:
        NotFoundError: `job.record.not_found`.
        UsageError: `job.state.not_cancellable`: the job has ended or is ending;
            `job.cancel.without_compensation`: an earlier cancel does not compensate.
    """
    facts = {
        "cancelled_by": actor,
        "cancel_reason": reason,
        "cancel_code": "job.cancel.requested",
        "cancel_compensates": compensate,
    }
    job = await rt.jobs.read(ref)
    while job is not None and job.status in CANCELLABLE:
        if await rt.transitions.cancel(job, facts):
            event = {"actor": actor, "reason": reason, "compensate": compensate}
            await rt.jobs.record(ref, "cancelled", event)
        job = await rt.jobs.read(ref)
    if job is None:
        message = f"Job {ref.job} does not exist."
        raise NotFoundError(message, code="job.record.not_found")
    if job.status not in {JobStatus.CANCELLING, JobStatus.CANCELLED}:
        message = f"Job {ref.job} is {job.status}: it cannot be cancelled."
        raise UsageError(message, code="job.state.not_cancellable")
    if job.status is JobStatus.CANCELLING:
        on_recorded(job)
        await sweep(rt, job, progress)
        await follow_children(rt, ref)
    if compensate and not job.compensates_on_cancel:
        message = f"Job {ref.job} was cancelled without compensation."
        raise UsageError(message, code="job.cancel.without_compensation")
    return await rt.jobs.read(ref) or job
