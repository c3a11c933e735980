"""The shape of a pipeline: what a chunk's rows depend on, as data.

A job has the shape of its submit. A worker compares it with that of its own pipeline
before it continues a chunk. It goes on across a change that is safe for the rows of
this chunk. It stops the chunk before anything is sent if the change is not.

    stages      their order, compensations, value types, kinds of effects, and the
                functions with an effect that they call
    pivot       its name
    result      the stage whose value is the result
    payload     a digest of its schema
    join        whether there is one

All here is pure, so that a test can list the changes.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from piecework.domain.effect import Effect


@dataclass(frozen=True, slots=True)
class StageShape:
    """A stage as its chunks' rows depend on it.

    Attributes:
        is_compensable: Whether it has a compensation.
        value: A digest of the schema of its value.
        effects: The kinds of effects of the dependencies that its functions name.
        calls: The names of the functions with an effect that its functions name.
    """

    name: str
    is_compensable: bool = False
    value: str = ""
    effects: Mapping[str, str] = field(default_factory=dict)
    calls: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Shape:
    """The shape of a pipeline."""

    stages: tuple[StageShape, ...]
    pivot: str = ""
    result: str = ""
    payload: str = ""
    has_join: bool = False

    @property
    def names(self) -> list[str]:
        """The names of the stages, in order."""
        return [stage.name for stage in self.stages]

    def stage(self, name: str) -> StageShape | None:
        """Return a stage; None: there is no such stage."""
        return next((stage for stage in self.stages if stage.name == name), None)

    def write(self) -> str:
        """Return the shape as short JSON."""
        stages = [
            [
                stage.name,
                int(stage.is_compensable),
                stage.value,
                dict(stage.effects),
                stage.calls,
            ]
            for stage in self.stages
        ]
        whole = [stages, self.pivot, self.result, self.payload, int(self.has_join)]
        return json.dumps(whole, separators=(",", ":"))

    @classmethod
    def read(cls, text: str) -> Shape:
        """Read what `write` has written."""
        stages, pivot, result, payload, has_join = json.loads(text)
        found = (
            StageShape(name, bool(undo), value, effects, tuple(calls))
            for name, undo, value, effects, calls in stages
        )
        return cls(tuple(found), pivot, result, payload, bool(has_join))


@dataclass(frozen=True, slots=True)
class ChunkRows:
    """What the rows of a chunk tell.

    Attributes:
        completed: The stages that have completed.
        stage: The stage that it is at; empty: no claim has worked on it.
        affected: The stages with an effect that may have happened.
    """

    completed: Collection[str] = ()
    stage: str = ""
    affected: Collection[str] = ()


@dataclass(frozen=True, slots=True)
class Same:
    """Nothing that the chunk depends on has changed."""


@dataclass(frozen=True, slots=True)
class Compatible:
    """The chunk goes on; `difference` says in one sentence what has changed."""

    difference: str


@dataclass(frozen=True, slots=True)
class Unsafe:
    """The chunk must not go on with the new shape, for this reason."""

    reason: str


Comparison: TypeAlias = Same | Compatible | Unsafe


def compare(old: Shape, new: Shape, rows: ChunkRows) -> Comparison:
    """Return whether a chunk may go on with a new shape of its pipeline."""
    if old == new:
        return Same()
    if reason := next(reasons(old, new, rows), ""):
        return Unsafe(reason)
    found = list(differences(old, new))
    return Compatible(f"{'; '.join(found)}.") if found else Same()


def compare_join(old: Shape, new: Shape) -> Comparison:
    """Return whether the join of a job may run with a new shape of its pipeline.

    Its chunks may have ended by either. A join that has been removed would not run, and
    none would say so.
    """
    if old.has_join and not new.has_join:
        return Unsafe("the job was submitted with a join, and there is none now")
    if new.has_join and old.result != new.result:
        return Unsafe(
            f"its chunks may have the result of {old.result!r}, and the join now reads "
            f"that of {new.result!r}"
        )
    return Same()


def reasons(old: Shape, new: Shape, rows: ChunkRows) -> Iterator[str]:
    """Yield each reason for which the chunk must not go on.

    A chunk on which no claim has worked has no row that could be misread.
    """
    if not rows.stage:
        return
    yield from reasons_of_the_pivot(old, new, rows)
    yield from reasons_of_a_rename(old, new, rows)
    yield from reasons_of_a_moved_call(old, new, rows)
    before, after = old.stage(rows.stage), new.stage(rows.stage)
    if before is None or after is None or rows.stage in rows.completed:
        return
    for name, kind in before.effects.items():
        now = after.effects.get(name, kind)
        if kind == Effect.PURE != now:
            yield (
                f"the effect of {name!r} was {kind} and is {now} now, in the stage "
                f"{rows.stage!r} that has begun: no record tells what it has sent"
            )


def reasons_of_the_pivot(old: Shape, new: Shape, rows: ChunkRows) -> Iterator[str]:
    """Yield a reason if the chunk has passed a pivot that the new shape denies."""
    may_have_acted = {*rows.completed, *rows.affected, rows.stage}
    if old.pivot in may_have_acted and new.pivot != old.pivot:
        is_past = new.pivot in rows.completed
        if not is_past:
            now = f"{new.pivot!r} is the pivot now" if new.pivot else "it has none now"
            yield (
                f"its pivot {old.pivot!r} may have happened, and {now}: what came "
                "before it would be compensated"
            )
    if new.pivot and new.pivot in rows.completed:
        names = new.names
        for name in names[: names.index(new.pivot)]:
            if name not in rows.completed:
                yield (
                    f"the stage {name!r} stands before the pivot {new.pivot!r} now, "
                    "which has happened: nothing could compensate it"
                )


def reasons_of_a_rename(old: Shape, new: Shape, rows: ChunkRows) -> Iterator[str]:
    """Yield a reason for a stage with an effect that may be another one now."""
    known = {*old.names, *rows.completed, rows.stage}
    added = [name for name in new.names if name not in known]
    undone = {s.name for s in old.stages if s.is_compensable} & {*rows.completed}
    for name in sorted({*rows.affected} | undone):
        if name not in new.names:
            if name not in rows.completed:
                yield (
                    f"the stage {name!r} has begun to act, and there is no such stage "
                    "now"
                )
            elif added:
                yield (
                    f"the stage {name!r} has acted, and there is no such stage now: "
                    f"{added[0]!r} may be it, and would act again"
                )


def reasons_of_a_moved_call(old: Shape, new: Shape, rows: ChunkRows) -> Iterator[str]:
    """Yield a reason for a call that the chunk would make again, or never.

    A stage that has completed does not run again. A call that has left it for a stage
    that has not would be made twice, and one that has come to it would be left out.
    """
    for before in old.stages:
        after = new.stage(before.name)
        kept = () if after is None else after.calls
        is_done = before.name in rows.completed
        if is_done and before.name not in rows.affected:
            continue
        for call in (each for each in before.calls if each not in kept):
            came = [
                stage.name
                for stage in new.stages
                if call in stage.calls
                and ((was := old.stage(stage.name)) is None or call not in was.calls)
            ]
            ahead = [name for name in came if name not in rows.completed]
            if is_done and ahead:
                yield (
                    f"the call of {call!r} was in {before.name!r}, which has acted, "
                    f"and is in {ahead[0]!r} now: it would be made again"
                )
            if not is_done and came and not ahead:
                yield (
                    f"the call of {call!r} was in {before.name!r}, which has not "
                    f"completed, and is in {came[0]!r} now, which has: it would never "
                    "be made"
                )


def differences(old: Shape, new: Shape) -> Iterator[str]:
    """Yield a clause for each change."""
    for name in old.names:
        if name not in new.names:
            yield f"{name!r} is gone"
    for name in new.names:
        if name not in old.names:
            yield f"{name!r} is new"
    kept = [name for name in new.names if name in old.names]
    if kept != [name for name in old.names if name in new.names]:
        yield f"the order is {', '.join(new.names)}"
    pivot = f"the pivot is {new.pivot!r}" if new.pivot else "there is no pivot"
    clauses = (
        (old.pivot != new.pivot, pivot),
        (old.result != new.result, f"the result is that of {new.result!r}"),
        (old.payload != new.payload, "the payload has another type"),
        (
            old.has_join != new.has_join,
            f"there is {'a' if new.has_join else 'no'} join",
        ),
    )
    yield from (clause for is_changed, clause in clauses if is_changed)
    for name in kept:
        yield from stage_differences(old.stage(name), new.stage(name))


def stage_differences(old: StageShape | None, new: StageShape | None) -> Iterator[str]:
    """Yield a clause for each change of a stage that both shapes have."""
    if old is None or new is None:
        return
    if old.is_compensable != new.is_compensable:
        has = "a compensation" if new.is_compensable else "no compensation"
        yield f"{new.name!r} has {has}"
    if old.value != new.value:
        yield f"the value of {new.name!r} has another type"
    if dict(old.effects) != dict(new.effects):
        yield f"the effects of {new.name!r} are others"
    if old.calls != new.calls:
        yield f"{new.name!r} calls other functions with an effect"
