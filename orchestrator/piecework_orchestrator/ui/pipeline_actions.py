"""The actions on a pipeline: pause all its jobs, and resume them."""

from __future__ import annotations

from typing import Final

from piecework.domain.job import Job
from piecework.jobs.pipeline_pauses import is_paused_by_pipeline
from piecework_orchestrator.client import Client
from piecework_orchestrator.operate.pipelines import newest_active, require_name
from piecework_orchestrator.reading.times import count
from piecework_orchestrator.ui.action import Fields, Preview, Subject

#: Jobs that a preview lists.
MAX_LISTED: Final = 20
COLUMNS: Final = ("job", "status", "chunks")


async def preview_pause(client: Client, subject: Subject) -> Preview:
    """List the jobs that would wait.

    Raises:
        UsageError: `cli.usage.invalid`: not the name of a pipeline.
    """
    found = [job for job in await jobs_of(client, subject) if job.pause is None]
    sentences = [
        f"{count(len(found), 'job')} will wait; calls in flight finish.",
        "Deadlines go on.",
        "Each job that starts meanwhile will wait, too.",
    ]
    if why := await why_paused(client, subject):
        sentences.insert(0, f"It is paused already: {why} This reason replaces it.")
    return preview(sentences, found)


async def preview_resume(client: Client, subject: Subject) -> Preview:
    """Say why the pipeline is paused, and list the jobs that would go on.

    Raises:
        UsageError: `cli.usage.invalid`: not the name of a pipeline.
    """
    found = [
        job for job in await jobs_of(client, subject) if is_paused_by_pipeline(job)
    ]
    why = await why_paused(client, subject)
    sentences = [
        f"It was paused: {why}" if why else "It is not paused.",
        f"{count(len(found), 'job')} that it has paused will go on.",
        "A job that was paused for another reason stays paused.",
    ]
    return preview(sentences, found)


async def pause(client: Client, subject: Subject, fields: Fields) -> str:
    """Pause a pipeline."""
    done = await client.pause_pipeline(subject.pipeline, fields["reason"])
    return f"{count(len(done['followed']), 'job')} of {subject} paused."


async def resume(client: Client, subject: Subject, fields: Fields) -> str:
    """Resume a pipeline."""
    done = await client.resume_pipeline(subject.pipeline, fields["reason"])
    return f"{count(len(done['followed']), 'job')} of {subject} resumed."


async def jobs_of(client: Client, subject: Subject) -> list[Job]:
    """Return the active ones of the tenant's newest jobs that run the pipeline."""
    require_name(subject.pipeline)
    rt = client.runtime
    found = newest_active(rt, rt.settings.tenant)
    return [job async for job in found if job.pipeline == subject.pipeline]


async def why_paused(client: Client, subject: Subject) -> str:
    """Return why and by whom the pipeline is paused; empty: it is not."""
    rt = client.runtime
    state = await rt.pipelines.read(rt.settings.tenant, subject.pipeline)
    if state.pause is None:
        return ""
    return f"{state.pause.why} (by {state.pause.actor})."


def preview(sentences: list[str], jobs: list[Job]) -> Preview:
    """Return what an action would touch."""
    more = len(jobs) - MAX_LISTED
    if more > 0:
        sentences.append(f"Not listed: {more:,} more.")
    rows = [
        {"job": job.ref.job, "status": job.status, "chunks": f"{job.chunks:,}"}
        for job in jobs[:MAX_LISTED]
    ]
    return Preview(tuple(sentences), tuple(rows), COLUMNS)
