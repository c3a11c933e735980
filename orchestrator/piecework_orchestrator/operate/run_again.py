"""Run chunks again from a stage that has completed, as an operator chose it.

The stage and all that completed after it run again; those before it keep their values.
An edited value takes the place of the stage's own: the chunk then goes on after it.

An act of a stage that runs again is never made twice without the operator's word. The
same call takes its stored answer. A call with other arguments is another act, so a
chunk with such acts is refused until the operator says that they may be repeated. One
with an effect in doubt is always refused. After its pivot a chunk only goes forward.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from piecework.aws.objects import INLINE_LIMIT
from piecework.domain import keys, values
from piecework.domain.chunk import Chunk
from piecework.domain.dead_letter import DeadLetterRow
from piecework.domain.job import Job
from piecework.domain.refs import JobRef
from piecework.domain.rows import StageRow
from piecework.domain.shape import Shape
from piecework.domain.states import ChunkStatus
from piecework.domain.strict_json import Bounds, JsonRefusedError, read_json
from piecework.errors import PermanentError, UsageError
from piecework.explain.changed import Act, counted
from piecework.explain.situation import IN_DOUBT
from piecework.pipelines import Pipeline
from piecework.runtime import Runtime
from piecework.store.checkpoints import Work, read_work
from piecework.store.completion import all_chunks, read_chunk
from piecework.store.effects import MAY_HAVE_HAPPENED
from piecework.store.reopen import Restart
from piecework.store.results import NULL
from piecework_orchestrator.operate.unknown_fields import (
    unknown_fields,
    unread_fields,
    unstored,
)

#: Statuses of chunks that ended without a result.
WITHOUT_RESULT: Final = frozenset({ChunkStatus.DEAD, ChunkStatus.CANCELLED})
#: Chunks whose rows a preview reads: one request each.
MOST_READ: Final = 200
#: The state of a stage that had a compensation: it may have acted outside of its calls.
COMPLETED: Final = "COMPLETED"
#: What a stage that runs again does to an act, by the state of the act.
AGAIN: Final = {
    "DONE": "It has happened. The same call takes its stored answer; one with other "
    "arguments happens, too.",
    "INTENT": "It may have happened. Resolve it first.",
    "UNKNOWN": "It may have happened. Resolve it first.",
    COMPLETED: "It may have acted outside of its calls. It does so again.",
    "": "It was answered. The same call takes its stored answer; another one is paid.",
}


@dataclass(frozen=True, slots=True)
class RunAgain:
    """From where chunks run again.

    Attributes:
        stage: A stage that has completed. A chunk in which it has not continues where
            it would without this.
        value: JSON of up to 64 KiB that takes the place of the stage's value; None:
            the stage runs again.
        repeats: Whether the operator lets acts happen twice.
        pipeline: Checks the value against the type of the stage; None: any JSON.
    """

    stage: str
    value: str | None = None
    repeats: bool = False
    pipeline: Pipeline | None = None

    @property
    def facts(self) -> dict[str, Any]:
        """What the record of the job keeps of it."""
        found: dict[str, Any] = {"from_stage": self.stage}
        found |= {"value_edited": True} if self.value is not None else {}
        return found | ({"repeats": True} if self.repeats else {})

    def check(self) -> None:
        """Refuse a value that no worker can read.

        Raises:
            UsageError: `redrive.value.invalid`, `redrive.field.unknown`.
        """
        if self.value is None:
            return
        try:
            given = read_json(self.value, Bounds(INLINE_LIMIT), finite=False)
        except JsonRefusedError as error:
            raise invalid_value(f"The new value is not valid JSON: {error}.") from error
        if self.pipeline is None:
            return
        stages = {stage.name: stage for stage in self.pipeline.stages}
        if self.stage not in stages:
            raise unknown_stage(self.stage, stages)
        try:
            read = values.decode(stages[self.stage].run, self.value)
        except PermanentError as error:
            message = f"The new value does not fit stage {self.stage!r}: "
            raise invalid_value(message + error.message) from error
        if vanishing := dict(unread_fields(given, read)):
            why = f"the type of stage {self.stage!r} has no such field"
            raise unknown_fields("value", why, vanishing)


def invalid_value(message: str) -> UsageError:
    """Return the error that refuses a new value."""
    return UsageError(message, code="redrive.value.invalid")


def unknown_stage(stage: str, known: Iterable[str]) -> UsageError:
    """Return the error of a stage that no chunk can start from."""
    message = f"There is no stage {stage!r} to run from."
    step = f"Use one of {', '.join(known)}."
    return UsageError(message, code="redrive.stage.unknown", next_step=step)


def require_stage(job: Job, stage: str) -> None:
    """Refuse a stage that the pipeline of a job did not have at its submit.

    Raises:
        UsageError: `redrive.stage.unknown`.
    """
    if job.shape and stage not in (names := Shape.read(job.shape).names):
        raise unknown_stage(stage, names)


# ── what runs again, and what that repeats ────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Plan:
    """What one chunk keeps and runs again.

    Attributes:
        kept: The completed stages that keep their values, in order.
        again: Those that run again, in order.
        acts: What the stages that run again, and those that only began, have done.
        passed: The pivot that it has passed and would run again; empty: none.
    """

    work: Work
    kept: Sequence[StageRow]
    again: Sequence[StageRow]
    acts: Sequence[Act]
    passed: str = ""

    @property
    def in_doubt(self) -> bool:
        """Whether an effect may have happened, and no operator has resolved it."""
        return any(act.state in IN_DOUBT for act in self.acts)

    @property
    def repeats(self) -> bool:
        """Whether an act may happen twice."""
        return any(act.state for act in self.acts)


def make_plan(job: Job, chunk: Chunk, work: Work, wanted: RunAgain) -> Plan | None:
    """Return what a chunk runs again; None: the stage has not completed in it."""
    done = work.complete_stages(chunk.gen + 1)
    if wanted.stage not in done:
        return None
    rows = list(done.values())
    first = [row.stage for row in rows].index(wanted.stage)
    first += wanted.value is not None
    kept, again = rows[:first], rows[first:]
    names = {row.stage for row in kept}
    acts = [*acts_outside(work, names), *acts_of_stages(again)]
    affected = {act.stage for act in acts if act.state}
    shapes = filter(None, (job.shape, *(row.shape for row in rows)))
    pivots = {Shape.read(shape).pivot for shape in shapes}
    passed = pivots & (affected | {row.stage for row in again})
    return Plan(work, kept, again, acts, min(passed - {""}, default=""))


def acts_outside(work: Work, kept: Collection[str]) -> Iterable[Act]:
    """Yield the calls of all stages but those that keep their values."""
    from piecework.calls.earlier import call_at  # loads pydantic

    for row in work.effects:
        name = row.stage
        runs = name not in kept and not keys.is_compensation_stage(name)
        if runs and row.state in MAY_HAVE_HAPPENED:
            called = row.called, row.dependency
            yield Act(name, *called, row.state, row.effect, row.started_at)
    for page in work.calls:
        for site in page.read_sites().values():
            call = call_at(site)
            name = call.stage
            if name not in kept and not keys.is_compensation_stage(name):
                yield Act(name, call.function, call.dependency, "")


def acts_of_stages(again: Iterable[StageRow]) -> Iterable[Act]:
    """Yield the stages that may have acted outside of their calls."""
    for row in again:
        if row.is_compensable:
            yield Act(row.stage, "", "", COMPLETED, COMPLETED)


def require_allowed(chunk: Chunk, plan: Plan, wanted: RunAgain) -> None:
    """Refuse to run stages again whose acts would, or might, happen twice.

    Raises:
        UsageError: `redrive.stage.before_pivot`, `redrive.effect.unresolved`,
            `redrive.effect.repeated`.
    """
    job = chunk.ref.job
    if plan.passed:
        message = (
            f"Chunk {chunk.ref} has passed its pivot {plan.passed!r}, or may have: "
            f"from stage {wanted.stage!r} it would run it again."
        )
        raise UsageError(message, code="redrive.stage.before_pivot")
    if plan.in_doubt:
        message = (
            f"An effect of chunk {chunk.ref} is in doubt, in a stage that would run "
            f"again from {wanted.stage!r}."
        )
        step = f"`piecework effects list {job}` lists what to resolve."
        raise UsageError(message, code="redrive.effect.unresolved", next_step=step)
    if plan.repeats and not wanted.repeats:
        acted = sorted({act.stage for act in plan.acts if act.state})
        message = (
            f"From stage {wanted.stage!r}, chunk {chunk.ref} runs stages again that "
            f"have acted: {', '.join(acted)}."
        )
        raise UsageError(message, code="redrive.effect.repeated")


def require_taken(chunk: Chunk, wanted: RunAgain) -> None:
    """Refuse a new value for a chunk without one: its stage would run as if not given.

    Raises:
        UsageError: `redrive.value.unused`.
    """
    if wanted.value is not None:
        message = f"Chunk {chunk.ref} has not completed stage {wanted.stage!r}: "
        message += "there is no value that the new one could take the place of."
        raise UsageError(message, code="redrive.value.unused")


async def require_known(rt: Runtime, job: Job, plan: Plan, wanted: RunAgain) -> None:
    """Refuse a new value with fields that the stored one does not have.

    With a pipeline, `RunAgain.check` has compared them with the type of the stage.

    Raises:
        UsageError: `redrive.field.unknown`.
        PermanentError: `runtime.record.unreadable`: the stored value.
    """
    if wanted.value is None or wanted.pipeline is not None:
        return
    row, prefix = plan.kept[-1], keys.object_prefix(job.ref.tenant, job.ref.job)
    text = await rt.objects.get_value(row, prefix) if row.has_value else NULL
    old, given = json.loads(text), json.loads(wanted.value)
    if unknown := dict(unstored(given, old)):
        why = f"the stored value of stage {row.stage!r} has no such field"
        raise unknown_fields("value", why, unknown)


async def restart_of(
    rt: Runtime, job: Job, chunk: Chunk, wanted: RunAgain, actor: str
) -> Restart | None:
    """Return from where a chunk runs again; None: where it would anyway.

    Raises:
        UsageError: As `require_allowed` does; `redrive.value.unused`,
            `redrive.field.unknown`.
        PermanentError: `runtime.record.unreadable`: its completed stages.
    """
    work = await read_work(rt.table, chunk.ref, chunk)
    plan = make_plan(job, chunk, work, wanted)
    if plan is None:
        require_taken(chunk, wanted)
        return None
    require_allowed(chunk, plan, wanted)
    await require_known(rt, job, plan, wanted)
    kept = {row.stage: work.entries[row.stage] for row in plan.kept}
    at = plan.again[0].stage if plan.again else chunk.resume_at
    if wanted.value is not None:
        row = plan.kept[-1]
        hidden = {"pk", "sk", "v", "expires_at", "stage", "value", "value_at"}
        facts = row.pick(row.item.keys() - hidden - {"value_sha256"})
        value: Mapping[str, str] = (
            {} if wanted.value == NULL else {"value": wanted.value}
        )
        kept[row.stage] = {**facts, **value, "edited_by": actor}
    return Restart(at, kept, repeats=wanted.repeats)


# ── the preview ───────────────────────────────────────────────────────────────


@dataclass(slots=True)
class RunAgainPreview:
    """What running chunks again from a stage does.

    Attributes:
        again: The chunks that run it again, or take the new value.
        as_usual: Those in which it has not completed: they continue where they are.
        refused: Those that are refused, by code.
        errors: Why each job with such a chunk is refused, as a whole.
        kinds: What their stages that run again have done, by kind, with what becomes
            of each.
        exact: Whether all of them were read; else the first `MOST_READ`.
    """

    again: int = 0
    as_usual: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    errors: dict[JobRef, UsageError] = field(default_factory=dict)
    kinds: list[dict[str, Any]] = field(default_factory=list)
    exact: bool = True

    @property
    def document(self) -> dict[str, Any]:
        """The preview as a document."""
        return {
            "again": self.again,
            "as_usual": self.as_usual,
            "refused": dict(self.refused),
            "kinds": self.kinds,
            "exact": self.exact,
        }


async def preview_run_again(
    rt: Runtime, chunks: AsyncIterator[tuple[Job, Chunk]], wanted: RunAgain
) -> RunAgainPreview:
    """Return what running these chunks again from a stage does; change nothing.

    Raises:
        UsageError: `redrive.stage.unknown`, `redrive.value.invalid`.
    """
    wanted.check()
    found, acts, read = RunAgainPreview(), list[Act](), 0
    async for job, chunk in chunks:
        require_stage(job, wanted.stage)
        if read == MOST_READ:
            found.exact = False
            break
        read += 1
        work = await read_work(rt.table, chunk.ref, chunk)
        plan = make_plan(job, chunk, work, wanted)
        try:
            if plan is None:
                require_taken(chunk, wanted)
                found.as_usual += 1
            else:
                found.again += 1
                acts += plan.acts
                require_allowed(chunk, plan, wanted)
                await require_known(rt, job, plan, wanted)
        except UsageError as error:
            found.refused[error.code] += 1
            found.errors.setdefault(job.ref, error)
    found.kinds = counted(acts, "again", lambda act: AGAIN[act.state])
    return found


async def dead_chunks(
    rt: Runtime, letters: Iterable[DeadLetterRow]
) -> AsyncIterator[tuple[Job, Chunk]]:
    """Yield the chunks of dead letters, each with its job; a join has one stage."""
    jobs = dict[str, Job | None]()
    for letter in letters:
        if letter.ref.is_join:
            continue
        if letter.job.pk not in jobs:
            jobs[letter.job.pk] = await rt.jobs.read(letter.job)
        job = jobs[letter.job.pk]
        chunk = await read_chunk(rt.table, letter.ref)
        if job is not None and chunk is not None and chunk.gen == letter.gen:
            yield job, chunk


async def chunks_to_retry(rt: Runtime, job: Job) -> AsyncIterator[tuple[Job, Chunk]]:
    """Yield the chunks of a job that ended without a result."""
    async for chunk in all_chunks(rt.table, job.ref, job.chunks):
        if chunk.status in WITHOUT_RESULT:
            yield job, chunk
