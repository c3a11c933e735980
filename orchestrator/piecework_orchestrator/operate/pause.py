"""Pause a job, and resume it, for an operator: what does not fit is refused."""

from __future__ import annotations

from piecework.domain.job import Job
from piecework.domain.pause import Pause, PauseCode
from piecework.domain.refs import JobRef
from piecework.domain.states import JobStatus
from piecework.errors import NotFoundError, UsageError
from piecework.jobs.children import follow_children, is_paused_by_parent
from piecework.jobs.fan_out import Progress
from piecework.jobs.pausing import resume_job
from piecework.jobs.pipeline_pauses import require_running_pipeline
from piecework.runtime import Runtime
from piecework_orchestrator.reading.job_documents import job_facts, pause_command

#: What an operator does next with a job that cannot be paused, by its status.
STEPS = {
    JobStatus.SUBMITTING: "Wait until `piecework jobs show {job}` says RUNNING.",
    JobStatus.REOPENING: "Wait until `piecework jobs show {job}` says RUNNING.",
    JobStatus.FINALIZING: "Its chunks have all ended, and its join runs.",
}


async def pause(rt: Runtime, ref: JobRef, *, actor: str, reason: str) -> Job:
    """Pause a job and return it.

    No call starts from then on; workers learn of it within `cancel_poll_s`. Calls in
    flight finish. The deadline goes on.

    Raises:
        NotFoundError: `job.record.not_found`.
        UsageError: `job.state.not_pausable`: the job is not RUNNING.
    """
    while (job := await rt.jobs.read(ref)) is not None:
        if job.status is not JobStatus.RUNNING:
            break
        if await rt.transitions.pause(job, Pause(PauseCode.OPERATOR, reason, actor)):
            await follow_children(rt, ref)
            return await rt.jobs.read(ref) or job
    if job is None:
        raise not_found(ref)
    step = STEPS.get(job.status, "See `piecework jobs show {job}`.")
    if job.pause is not None:
        step = f"End this pause with `{pause_command(job_facts(job, rt.clock()))}`."
    message = f"Job {ref.job} is {status_text(job)}: it cannot be paused."
    raise UsageError(
        message, code="job.state.not_pausable", next_step=step.format(job=ref.job)
    )


async def resume(
    rt: Runtime,
    ref: JobRef,
    *,
    actor: str,
    reason: str,
    progress: Progress = lambda *_: None,
) -> Job:
    """End the pause of a job, send the messages of its open chunks, and return it.

    If this call is interrupted, a reconciler sends the messages.

    Raises:
        NotFoundError: `job.record.not_found`.
        UsageError: `job.state.not_paused`, `job.pipeline.paused`,
            `job.parent.paused`.
    """
    job = await rt.jobs.read(ref)
    if job is None:
        raise not_found(ref)
    if job.pause is not None:
        await require_running_pipeline(rt, job)
    if is_paused_by_parent(job):
        message = f"Job {ref.job} is paused with its parent {job.parent_job}."
        step = f"`piecework jobs resume {job.parent_job}`"
        raise UsageError(message, code="job.parent.paused", next_step=step)
    if not await resume_job(rt, job, actor, reason, progress):
        message = f"Job {ref.job} is {job.status}: it is not paused."
        step = f"See `piecework jobs show {ref.job}`."
        if job.status.ended:
            step = f"`piecework jobs retry {ref.job} --reason 'why'`"
        raise UsageError(message, code="job.state.not_paused", next_step=step)
    await follow_children(rt, ref)
    return await rt.jobs.read(ref) or job


def status_text(job: Job) -> str:
    """Return the status of a job, with the reason of its pause."""
    pause = job.pause
    if pause is None:
        return str(job.status)
    return f"PAUSED already ({pause.code}: {pause.why}; by {pause.actor})"


def not_found(ref: JobRef) -> NotFoundError:
    """Return the error of a job that does not exist."""
    message = f"Job {ref.job} does not exist."
    return NotFoundError(message, code="job.record.not_found")
