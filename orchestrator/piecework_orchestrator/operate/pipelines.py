"""The pipelines of a deployment, for an operator: list, pause, resume."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Mapping
from typing import Any

from piecework.domain.job import Job
from piecework.domain.keys import is_name, similar_names
from piecework.errors import UsageError
from piecework.explain.situation import if_readable
from piecework.jobs.pipeline_pauses import PausedJobs, pause_pipeline, resume_pipeline
from piecework.runtime import Runtime
from piecework.store.pipelines import PipelineState
from piecework.store.workers import read_reports

#: Of so many of the newest jobs the active ones are counted.
NEWEST = 200


async def list_pipelines(rt: Runtime, tenant: str) -> list[dict[str, Any]]:
    """Return each pipeline that a worker has, an active job runs, or a pause names.

    `workers` counts the live workers; None: this role cannot read their reports. `jobs`
    counts the active ones of the tenant's newest jobs.
    """
    workers, jobs = Counter[str](), Counter[str]()
    # A role of one tenant cannot read the reports of workers.
    reports = await if_readable(read_reports, rt.table)
    for report in reports or ():
        if report.is_live(rt.clock()):
            workers.update(report.pipelines)
    async for job in newest_active(rt, tenant):
        jobs[job.pipeline] += 1
    states = {s.pipeline: s async for s in rt.pipelines.of_tenant(tenant)}
    found = documents(tenant, workers, jobs, states)
    return [row | {"workers": None} for row in found] if reports is None else found


async def newest_active(rt: Runtime, tenant: str) -> AsyncIterator[Job]:
    """Yield the active ones of a tenant's newest jobs."""
    seen = 0
    async for ref in rt.jobs.listed(tenant):
        job = await rt.jobs.read(ref)
        if job is not None and job.status.is_open:
            yield job
        seen += 1
        if seen == NEWEST:
            return


def documents(
    tenant: str,
    workers: Mapping[str, int],
    jobs: Mapping[str, int],
    states: Mapping[str, PipelineState],
) -> list[dict[str, Any]]:
    """Return the pipelines with their workers, active jobs and pauses, by name."""
    names = workers.keys() | jobs.keys() | {n for n, s in states.items() if s.pause}
    return [
        {
            **document(states.get(name, PipelineState(tenant, name))),
            "workers": workers.get(name, 0),
            "jobs": jobs.get(name, 0),
        }
        for name in sorted(names)
    ]


async def pause_one(
    rt: Runtime, tenant: str, pipeline: str, actor: str, reason: str
) -> dict[str, Any]:
    """Pause a pipeline and its running jobs; return its state and the jobs.

    Raises:
        UsageError: `cli.usage.invalid`: not the name of a pipeline.
    """
    require_name(pipeline)
    paused = await pause_pipeline(rt, tenant, pipeline, actor=actor, reason=reason)
    rows = await list_pipelines(rt, tenant)
    hidden = any(row["workers"] is None for row in rows)
    used = [row["pipeline"] for row in rows if row["workers"] or row["jobs"]]
    return {
        **followed(paused),
        "replaced": paused.replaced and paused.replaced.document(),
        "known": hidden or pipeline in used or bool(paused.jobs),
        "similar": similar_names(pipeline, used),
    }


async def resume_one(
    rt: Runtime, tenant: str, pipeline: str, actor: str, reason: str
) -> dict[str, Any]:
    """Resume a pipeline and the jobs that it has paused; return its state and them.

    Raises:
        UsageError: `job.pipeline.not_paused`; `cli.usage.invalid`.
    """
    require_name(pipeline)
    return followed(
        await resume_pipeline(rt, tenant, pipeline, actor=actor, reason=reason)
    )


def require_name(pipeline: str) -> None:
    """Check that a text can name a pipeline.

    Raises:
        UsageError: `cli.usage.invalid`.
    """
    if not is_name(pipeline):
        raise UsageError(f"{pipeline[:64]!r} is not the name of a pipeline.")


def followed(paused: PausedJobs) -> dict[str, Any]:
    """Return the state of a pipeline, and the jobs that followed it."""
    return {**document(paused.state), "followed": list(paused.jobs)}


def document(state: PipelineState) -> dict[str, Any]:
    """Return the state of a pipeline."""
    pause = state.pause
    return {
        "pipeline": state.pipeline,
        "tenant": state.tenant,
        "pause": None if pause is None else pause.document(),
    }
