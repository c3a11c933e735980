"""Predict, chunk by chunk, what `jobs cancel --compensate` would compensate.

The chunk's rows say how far it came; the pipeline says which function compensates a
stage. The steps come from `piecework/saga/compensation.py`, which also executes them.
Nothing here writes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from piecework.context import Context
from piecework.domain import keys
from piecework.domain.chunk import Chunk
from piecework.domain.job import Job
from piecework.domain.rows import EffectRow
from piecework.domain.states import CANCELLABLE, JobStatus
from piecework.errors import ErrorEnvelope, UsageError
from piecework.loading import load_pipeline
from piecework.pipelines import Pipeline, Stage, StageFunction
from piecework.runtime import Runtime
from piecework.saga.compensation import (
    CompensationStep,
    StepState,
    cancellation_cause,
    compensation_plan,
    preview,
)
from piecework.store.cancellation import FORWARD
from piecework.store.checkpoints import (
    Work,
    read_effects,
    read_progress_rows,
)
from piecework.store.completion import all_chunks
from piecework.store.effects import MAY_HAVE_HAPPENED
from piecework_orchestrator.reading.chunk_documents import require_chunk
from piecework_orchestrator.reading.job_documents import Document


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """The job whose plan is requested.

    Attributes:
        pipeline: The job's pipeline; None: the plan shows only what is stored.
        chunk: Plan only this chunk; None: every chunk that was started.
    """

    job: Job
    pipeline: Pipeline | None
    chunk: int | None = None


@dataclass(frozen=True, slots=True)
class ChunkProgress:
    """The rows of a chunk that decide its compensation steps.

    Attributes:
        may_have_happened: The stages with an effect that may have happened.
        cause: Why the chunk is compensating already; None: it goes forward.
    """

    reached_stage: str
    completed: Mapping[str, str]
    compensable: frozenset[str]
    compensated: Mapping[str, ErrorEnvelope | None]
    may_have_happened: frozenset[str]
    cause: ErrorEnvelope | None


def pipeline_of(job: Job, name: str) -> Pipeline | None:
    """Load the job's pipeline by its `module:pipeline` name; None for no name.

    Raises:
        UsageError: `cli.usage.invalid`: the job belongs to another pipeline.
    """
    if not name:
        return None
    found = load_pipeline(name)
    require_pipeline(job, found)
    return found


def require_pipeline(job: Job, pipeline: Pipeline | None) -> None:
    """Raise if a pipeline is not the job's.

    Raises:
        UsageError: `cli.usage.invalid`.
    """
    if pipeline is not None and pipeline.name != job.pipeline:
        name = pipeline.name
        message = f"Job {job.ref.job} belongs to pipeline {job.pipeline}, not {name}."
        raise UsageError(message, next_step="Name the job's pipeline.")


async def compensation_plans(
    rt: Runtime, request: PlanRequest
) -> AsyncIterator[list[Document]]:
    """Yield the steps of each chunk that was started and has not ended, in order.

    Yield nothing if a cancel cannot compensate the job any more.
    """
    job = request.job
    compensating = job.status is JobStatus.CANCELLING and job.compensates_on_cancel
    if job.status not in CANCELLABLE and not compensating:
        return
    if request.chunk is not None:
        chunk = await require_chunk(rt, job.ref.chunk(request.chunk))
        if may_compensate(chunk):
            yield await plan_chunk(rt, chunk, request.pipeline)
        return
    async for chunk in all_chunks(rt.table, job.ref, job.chunks):
        if may_compensate(chunk):
            yield await plan_chunk(rt, chunk, request.pipeline)


def may_compensate(chunk: Chunk) -> bool:
    """Return whether a chunk was started and has not ended; a fence proves a claim."""
    return not chunk.status.ended and bool(chunk.fence) and not chunk.ref.is_join


async def plan_chunk(
    rt: Runtime, chunk: Chunk, pipeline: Pipeline | None
) -> list[Document]:
    """Return the steps of a chunk as documents, in the order of execution."""
    effects = await read_effects(rt.table, chunk.ref)
    work = await read_progress_rows(rt.table, chunk)
    known = pipeline or placeholder_pipeline(recorded_stages(chunk, work, effects))
    progress = read_progress(chunk, work, known, effects)
    return [
        {
            "job": chunk.ref.job,
            "chunk": chunk.ref.chunk,
            "status": str(chunk.status),
            "stage": step.stage.name,
            "state": str(step.state),
            "compensate": function_name(step.stage.compensate) if pipeline else None,
            "reversibility": step.stage.reversibility if pipeline else None,
        }
        for step in plan_steps(rt, chunk, known, progress)
    ]


def plan_steps(
    rt: Runtime, chunk: Chunk, pipeline: Pipeline, progress: ChunkProgress
) -> list[CompensationStep]:
    """Return the steps that the engine would execute if the job were cancelled now."""
    if progress.cause is not None:
        return compensation_plan(
            pipeline, progress.cause, progress, progress.may_have_happened
        )
    cancelled = cancellation_cause(chunk.ref, progress.reached_stage, rt.clock())
    found = preview(pipeline, cancelled, progress, progress.may_have_happened)
    if chunk.direction == FORWARD:
        return [CompensationStep(step.stage, StepState.FORWARD_ONLY) for step in found]
    return found


def read_progress(
    chunk: Chunk, work: Work, pipeline: Pipeline, effects: Sequence[EffectRow]
) -> ChunkProgress:
    """Return how far earlier claims came, without the values of stages and calls.

    Raises:
        UsageError: `runtime.stage.not_found`: the pipeline has no such stage.
    """
    names, entered = [s.name for s in pipeline.stages], chunk.stage
    if entered not in names:
        message = f"Pipeline {pipeline.name!r} has no stage {entered!r}."
        step = "Name the pipeline version that the job was submitted with."
        raise UsageError(message, code="runtime.stage.not_found", next_step=step)
    cause = work.compensation_in(chunk.gen)
    began = chunk.gen if cause is None else cause.calls_gen or chunk.gen
    rows = work.complete_stages(began)
    return ChunkProgress(
        reached_stage=entered,
        completed=dict.fromkeys(rows, ""),
        compensable=frozenset(n for n, row in rows.items() if row.is_compensable),
        compensated={row.stage: row.failure for row in work.compensated_in(chunk.gen)},
        may_have_happened=frozenset(
            row.stage for row in effects if row.state in MAY_HAVE_HAPPENED
        ),
        cause=None if cause is None else cause.cause,
    )


def recorded_stages(
    chunk: Chunk, work: Work, effects: Sequence[EffectRow]
) -> list[str]:
    """Return the stages that left a row, in order of time, the current stage last.

    Calls of a compensation have a stage name of their own and are skipped.
    """
    started = [(row.started_at, row.stage) for row in effects]
    ended = [(row.finished_at, row.stage) for row in work.stages]
    found = [name for _, name in sorted(started + ended)]
    names = [name for name in found if not keys.is_compensation_stage(name)]
    cursor = chunk.stage
    return [*(name for name in dict.fromkeys(names) if name != cursor), cursor]


def placeholder_pipeline(names: Sequence[str]) -> Pipeline:
    """Return a pipeline of these stages, each with a placeholder compensation."""
    stages = [
        Stage(placeholder(), compensate=placeholder(), name=name) for name in names
    ]
    return Pipeline("unknown", payload=BaseModel, stages=stages)


def placeholder() -> StageFunction:
    """Return a new function in place of an unknown stage function."""

    async def unknown(ctx: Context[Any]) -> None:
        del ctx

    return unknown


def function_name(function: StageFunction | None) -> str | None:
    """Return the name of a compensation function; None for none."""
    return getattr(function, "__name__", str(function)) if function else None
