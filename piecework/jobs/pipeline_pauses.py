"""Pause all jobs of a pipeline, and resume them.

    pause     mark the pipeline, then pause its running jobs
    resume    remove the mark, then resume the jobs that it has paused

A job that starts while its pipeline is paused is paused before its messages are sent. A
reconciler does for each job what a command that died has left.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

from piecework.domain.job import Job
from piecework.domain.pause import Pause, PauseCode
from piecework.domain.states import JobStatus
from piecework.errors import UsageError
from piecework.jobs.fan_out import pause_with_pipeline
from piecework.jobs.pausing import resume_job
from piecework.runtime import Runtime
from piecework.store.pipelines import PipelineState


@dataclass(frozen=True, slots=True)
class PausedJobs:
    """The state of a pipeline after a command, and the jobs that followed it.

    Attributes:
        replaced: The earlier pause of a pipeline that was paused again.
    """

    state: PipelineState
    jobs: tuple[str, ...]
    replaced: Pause | None = None


async def pause_pipeline(
    rt: Runtime, tenant: str, pipeline: str, *, actor: str, reason: str
) -> PausedJobs:
    """Let no job of a pipeline start a call until it is resumed."""
    paused = False
    while not paused:  # another operator may be faster: this reason replaces the other
        seen = await rt.pipelines.read(tenant, pipeline)
        paused = await rt.pipelines.pause(seen, actor, reason)
    return replace(await _follow_all(rt, tenant, pipeline), replaced=seen.pause)


async def resume_pipeline(
    rt: Runtime, tenant: str, pipeline: str, *, actor: str, reason: str
) -> PausedJobs:
    """End the pause of a pipeline, and resume the jobs that it has paused.

    Raises:
        UsageError: `job.pipeline.not_paused`.
    """
    was_paused = False
    while (state := await rt.pipelines.read(tenant, pipeline)).pause is not None:
        was_paused = True
        if await rt.pipelines.resume(state, actor, reason):
            break
    followed = await _follow_all(rt, tenant, pipeline, actor, reason)
    if not (was_paused or followed.jobs):
        message = f"Pipeline {pipeline} is not paused."
        raise UsageError(
            message,
            code="job.pipeline.not_paused",
            next_step="piecework pipelines list",
        )
    return followed


async def follow_pipeline(
    rt: Runtime, job: Job, actor: str = "reconciler", reason: str = ""
) -> bool:
    """Pause or resume a job as its pipeline is; return whether that changed it."""
    if job.status is JobStatus.RUNNING:
        return await pause_with_pipeline(rt, job)
    if not is_paused_by_pipeline(job):
        return False
    state = await rt.pipelines.read(job.ref.tenant, job.pipeline)
    if state.pause is not None:
        return False
    return await resume_job(rt, job, actor, reason or "its pipeline was resumed")


async def require_running_pipeline(rt: Runtime, job: Job) -> None:
    """Check that the pipeline of a job lets it run.

    Raises:
        UsageError: `job.pipeline.paused`.
    """
    state = await rt.pipelines.read(job.ref.tenant, job.pipeline)
    if state.pause is not None:
        message = (
            f"Pipeline {job.pipeline} is paused: {state.pause.why}"
            f" (by {state.pause.actor})."
        )
        step = f"`piecework pipelines resume {job.pipeline}`"
        raise UsageError(message, code="job.pipeline.paused", next_step=step)


def is_paused_by_pipeline(job: Job) -> bool:
    """Return whether the pause of a pipeline has paused a job."""
    return job.pause is not None and job.pause.code == PauseCode.PIPELINE


async def _follow_all(
    rt: Runtime, tenant: str, pipeline: str, actor: str = "", reason: str = ""
) -> PausedJobs:
    followed = [
        job.ref.job
        async for job in jobs_of_pipeline(rt, tenant, pipeline)
        if await follow_pipeline(rt, job, actor, reason)
    ]
    state = await rt.pipelines.read(tenant, pipeline)
    return PausedJobs(state, tuple(followed))


async def jobs_of_pipeline(
    rt: Runtime, tenant: str, pipeline: str
) -> AsyncIterator[Job]:
    """Yield the active jobs of a pipeline."""
    refs = [ref async for ref in rt.jobs.active() if ref.tenant == tenant]
    for ref in refs:
        job = await rt.jobs.read(ref)
        if job is not None and job.pipeline == pipeline and not job.status.ended:
            yield job
