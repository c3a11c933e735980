"""Prepare a child job in a stage of its parent: packs and manifest, then its row.

The settlement of the parent's claim writes the row. Until then nothing but objects
exists, under names that come from their content: a stage that runs again writes the
same ones. From then on the manifest defines the job, and any process can fan it out.
"""

from __future__ import annotations

import tempfile
from typing import Any

from piecework.domain.child import OVER_BUDGET_CODE, ChildStart, lineage_below
from piecework.domain.job import Job
from piecework.domain.map_rows import MapRows
from piecework.domain.priority import Priority
from piecework.domain.refs import ChunkRef, JobRef
from piecework.domain.retention import life_of_rows
from piecework.errors import PermanentError
from piecework.jobs.child_forecast import forecast_child
from piecework.jobs.manifest import write_manifest
from piecework.jobs.packing import Packed, pack, start_of_backlog
from piecework.pipelines import Pipeline
from piecework.resilience.limits import micros
from piecework.runtime import Runtime
from piecework.saga.shape import shape_of


async def prepare_child(
    rt: Runtime,
    job: Job,
    ref: ChunkRef,
    child: JobRef,
    stage: str,
    pipeline: Pipeline,
    rows: MapRows,
    code_version: str,
) -> ChildStart:
    """Store what a child runs, and return how a claim starts it.

    Args:
        rt: The clients of this process.
        job: Its parent.
        ref: The chunk of its parent.
        child: Its name.
        stage: The stage that starts it.
        pipeline: Its pipeline.
        rows: Its rows.
        code_version: That of its pipeline in this process; a child of a pinned job is
            pinned to it.

    Raises:
        UsageError: `pipeline.map.cycle`, `pipeline.map.too_deep`.
        PermanentError: `runtime.map.over_budget`.
    """
    lineage = lineage_below(job.pipeline, job.lineage, pipeline.name)
    await require_room(rt, job, pipeline.name, rows.count)
    await rt.work.named(pipeline.queue)  # a job without it could not run
    with tempfile.TemporaryFile() as spool:
        packed = await pack(rt, child, rows.inputs(), spool, lambda *_: None)
        with packed.order.completed(spool) as lines:
            place = (child.tenant, child.job)
            manifest, sha256 = await write_manifest(rt.objects, *place, lines)
    facts = {
        "pipeline": pipeline.name,
        "first_stage": pipeline.stages[0].name,
        "shape": shape_of(pipeline).write(),
        "chunks": packed.chunks,
        "manifest": manifest,
        "manifest_sha256": sha256,
        "source": f"chunk {ref.name} of job {ref.job}",
        "submitted_by": job.submitted_by,
        "parent_job": ref.job,
        "parent_chunk": ref.chunk,
        "parent_stage": stage,
        "root_job": job.payer.job,
        "lineage": lineage,
        **life_of_rows(rt.clock(), rt.settings.job_retention_days),
        **facts_of_pipeline(pipeline, packed, job.priority),
        **facts_of_parent(job),
    }
    if job.pinned_to and code_version:
        facts["pinned_to"] = code_version
    return ChildStart(child.job, pipeline.name, stage, packed.chunks, facts)


def facts_of_pipeline(
    pipeline: Pipeline, packed: Packed, priority: Priority
) -> dict[str, Any]:
    """Return the facts of a child that come from its pipeline and its rows."""
    facts: dict[str, Any] = {}
    if packed.order.has_keys:
        facts["ordered"] = True
    if (start := start_of_backlog(priority, packed)) is not None:
        facts["backlog_start"] = start
    if pipeline.queue:
        facts["queue"] = pipeline.queue
    if pipeline.notify is not None:
        facts["has_notify_hook"] = True
    if pipeline.ladder is not None and pipeline.ladder.rungs:
        facts["has_ladder"] = True
    return facts


def facts_of_parent(job: Job) -> dict[str, Any]:
    """Return the facts that a child has from its parent."""
    facts: dict[str, Any] = {
        "deadline_at": job.deadline_at,
        "lane": job.lane,
        "tags": dict(job.tags) or None,
        "traceparent": job.traceparent,
        "budget_tokens": job.budget.tokens,
        "budget_nano_usd": job.budget.nano_usd,
    }
    if job.priority is not Priority.NORMAL:
        facts["priority"] = job.priority
    return {name: fact for name, fact in facts.items() if fact not in ("", None)}


async def require_room(rt: Runtime, job: Job, pipeline: str, rows: int) -> None:
    """Require that the budget of the root has room for a child, before it starts.

    Raises:
        PermanentError: `runtime.map.over_budget`.
    """
    budget = await rt.budgets.of_job(job)
    if budget is None:
        return
    needs = budget.cap.counted(await forecast_child(rt.table, job.ref, pipeline, rows))
    room = budget.room(micros(rt.clock()))
    if needs.fits(room):
        return
    message = (
        f"A child of {rows:,} rows of pipeline {pipeline} needs about "
        f"{budget.cap.text_of(needs)}, and the budget of job {job.payer.job} has "
        f"{budget.cap.text_of(room.at_least(type(room)()))} left."
    )
    raise PermanentError(message, code=OVER_BUDGET_CODE)
