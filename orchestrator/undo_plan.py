"""Foretell what a cancel that compensates would undo, chunk by chunk.

The record says how far a chunk came, the pipeline what undoes a stage; the steps come
from the same code that walks them (`piecework/way_back.py`). Nothing here writes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from orchestrator.inspector import Document, require_chunk
from piecework import keys
from piecework.context import Context
from piecework.errors import ErrorEnvelope, UsageError
from piecework.loading import load_pipeline
from piecework.model import CANCELLABLE, Chunk, Job, JobStatus
from piecework.pipeline import Pipeline, Stage, StageFunction
from piecework.runtime import Runtime
from piecework.store.census import all_chunks
from piecework.store.checkpoints import read_error
from piecework.store.ledger import STANDS
from piecework.store.table import Item
from piecework.store.turns import ONWARDS
from piecework.way_back import State, Step, foreseen, way_back
from piecework.winding_back import wound_back


@dataclass(frozen=True, slots=True)
class Asked:
    """Whose plan is asked for; without a pipeline only what the record tells."""

    job: Job
    pipeline: Pipeline | None
    chunk: int | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """What is on record of a chunk, as far as its way back depends on it.

    Attributes:
        turned: Why it is on its way back already, if it is.
    """

    entered: str
    completed: Mapping[str, str]
    undone: Mapping[str, ErrorEnvelope | None]
    standing: frozenset[str]
    turned: ErrorEnvelope | None


def declared(job: Job, name: str) -> Pipeline | None:
    """Return the pipeline that a name stands for; None for no name.

    Raises:
        UsageError: `cli.usage.invalid`: the job is another one's.
    """
    if not name:
        return None
    found = load_pipeline(name)
    if found.name != job.pipeline:
        message = f"Job {job.ref.job} is of pipeline {job.pipeline}, not {found.name}."
        raise UsageError(message, next_step="Name the pipeline of the job.")
    return found


async def plans(rt: Runtime, asked: Asked) -> AsyncIterator[list[Document]]:
    """Yield the steps of each chunk that was begun and has no end yet, in their order.

    Of a job that no cancel undoes any more there are none.
    """
    job = asked.job
    undoes = job.status is JobStatus.CANCELLING and job.compensates_on_cancel
    if job.status not in CANCELLABLE and not undoes:
        return
    if asked.chunk is not None:
        chunk = await require_chunk(rt, job.ref.chunk(asked.chunk))
        if concerned(chunk):
            yield await plan(rt, chunk, asked.pipeline)
        return
    async for chunk in all_chunks(rt.table, job.ref, job.chunks):
        if concerned(chunk):
            yield await plan(rt, chunk, asked.pipeline)


def concerned(chunk: Chunk) -> bool:
    """Say whether there may be something to undo: a fence tells that it was begun."""
    return not chunk.status.terminal and bool(chunk.fence) and not chunk.ref.is_join


async def plan(rt: Runtime, chunk: Chunk, pipeline: Pipeline | None) -> list[Document]:
    """Return the steps of a chunk, the first to be undone first."""
    effects = await rows(rt, chunk, "EFFECT#")
    known = pipeline or stand_in(await stages_on_record(rt, chunk, effects))
    record = await read_record(rt, chunk, known, effects)
    return [
        {
            "job": chunk.ref.job,
            "chunk": chunk.ref.chunk,
            "status": str(chunk.status),
            "stage": step.stage.name,
            "state": str(step.state),
            "compensate": name_of(step.stage.compensate) if pipeline else None,
            "undo": step.stage.undo if pipeline else None,
        }
        for step in steps(rt, chunk, known, record)
    ]


def steps(rt: Runtime, chunk: Chunk, pipeline: Pipeline, record: Record) -> list[Step]:
    """Return the steps as the engine would walk them, were the job cancelled now."""
    if record.turned is not None:
        return way_back(pipeline, record.turned, record, record.standing)
    asked = wound_back(chunk.ref, record.entered, rt.clock())
    found = foreseen(pipeline, asked, record, record.standing)
    if chunk.item.get("direction") == ONWARDS:
        return [Step(step.stage, State.ONWARDS) for step in found]
    return found


async def read_record(
    rt: Runtime, chunk: Chunk, pipeline: Pipeline, effects: Sequence[Item]
) -> Record:
    """Read what earlier claims left; nothing of what stages or calls returned.

    Every stage before the one where a chunk stands is complete.

    Raises:
        UsageError: `runtime.stage.renamed`: the pipeline has no such stage.
    """
    names, entered = [s.name for s in pipeline.stages], str(chunk.item["stage"])
    if entered not in names:
        message = f"Pipeline {pipeline.name!r} has no stage {entered!r}."
        step = "Name the pipeline as it was when the job was submitted."
        raise UsageError(message, code="runtime.stage.renamed", next_step=step)
    gen = f"{chunk.gen:04d}"
    turn = keys.work_prefix(chunk.ref.chunk) + f"TURN#{gen}"
    undone, turned = await asyncio.gather(
        rows(rt, chunk, f"UNDO#{gen}#"), rt.table.get(chunk.ref.pk, turn)
    )
    return Record(
        entered=entered,
        completed=dict.fromkeys(names[: names.index(entered)], ""),
        undone={
            str(row["stage"]): read_error(row) if "error" in row else None
            for row in undone
        },
        standing=frozenset(
            str(row["stage"]) for row in effects if row["effect_state"] in STANDS
        ),
        turned=read_error(turned) if turned else None,
    )


async def rows(rt: Runtime, chunk: Chunk, kind: str) -> list[Item]:
    """Return the rows of a kind that claims have written about a chunk."""
    prefix = keys.work_prefix(chunk.ref.chunk) + kind
    return [row async for row in rt.table.query(chunk.ref.pk, prefix)]


async def stages_on_record(
    rt: Runtime, chunk: Chunk, effects: Sequence[Item]
) -> list[str]:
    """Return the stages that left something behind, in time, the one at hand last.

    One that returned nothing and called nobody has left nothing. A compensation's own
    calls are effects of no stage.
    """
    result = rt.table.get(chunk.ref.pk, keys.result_sk(chunk.ref.chunk))
    values, last = await asyncio.gather(rows(rt, chunk, "STAGE#"), result)
    values += [last] if last else []
    begun = [(str(row["begun_at"]), str(row["stage"])) for row in effects]
    ended = [(str(row["finished_at"]), str(row["stage"])) for row in values]
    names = [name for _, name in sorted(begun + ended) if not name.startswith("undo:")]
    cursor = str(chunk.item["stage"])
    return [*(name for name in dict.fromkeys(names) if name != cursor), cursor]


def stand_in(names: Sequence[str]) -> Pipeline:
    """Return a pipeline of these stages, each as if something could undo it."""
    stages = [Stage(nobody(), compensate=nobody(), name=name) for name in names]
    return Pipeline("unknown", payload=BaseModel, stages=stages)


def nobody() -> StageFunction:
    """Return a function of its own in the place of one that is not known."""

    async def unknown(ctx: Context[Any]) -> None:
        del ctx

    return unknown


def name_of(function: StageFunction | None) -> str | None:
    """Return the name of what undoes a stage."""
    return getattr(function, "__name__", str(function)) if function else None
