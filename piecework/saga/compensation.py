"""List the stages to compensate, in order: the plan that the engine executes.

The engine walks these steps when it compensates a chunk. The command that previews a
cancel shows the same steps. This module only computes; it changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Protocol

from piecework import telemetry
from piecework.context import Context
from piecework.domain import keys
from piecework.domain.moments import iso
from piecework.domain.outcome import Cancelled, CompensationResult, DeadLettered
from piecework.domain.protocols import Checkpoints
from piecework.domain.refs import ChunkRef
from piecework.errors import ErrorEnvelope
from piecework.errors.codes import ErrorClass
from piecework.pipelines import Pipeline, Stage


class StepState(StrEnum):
    """The state of a stage that was started."""

    #: Completed; its compensation will run.
    DONE = "done"
    #: Not completed, and an effect of it has happened or may have, or it declares
    #: `undo_if_failed`; its compensation will run, too.
    IN_DOUBT = "in doubt"
    COMPENSATED = "compensated"
    FAILED = "compensation failed"
    #: An effect remains, and the stage has no compensation.
    NOT_COMPENSABLE = "effect remains, no compensation"
    NOT_NEEDED = "nothing to compensate"
    #: Not completed, and each of its effects was refused, or none was sent.
    NOT_HAPPENED = "no effect happened: not compensated"
    FORWARD_ONLY = "past the pivot: goes forward"
    #: The first intent of the pivot is refused, unless it is written before the cancel.
    AT_PIVOT = "at the pivot: compensated if the pivot has not acted"


#: An operator must repair the effects that these stages left.
UNRESOLVED = frozenset({StepState.FAILED, StepState.NOT_COMPENSABLE})
#: Nothing has to be done about these stages, and nothing was.
UNTOUCHED = frozenset({StepState.NOT_NEEDED, StepState.NOT_HAPPENED})


@dataclass(frozen=True, slots=True)
class CompensationStep:
    """A stage and its state in a compensation."""

    stage: Stage
    state: StepState

    @property
    def is_due(self) -> bool:
        """Whether the stage's compensation has still to run."""
        return self.state in {StepState.DONE, StepState.IN_DOUBT}


class CompensationProgress(Protocol):
    """The part of a chunk's checkpoints on which its compensation depends."""

    @property
    def completed(self) -> Mapping[str, str]:
        """The JSON value of each completed stage, by stage name."""

    @property
    def compensated(self) -> Mapping[str, ErrorEnvelope | None]:
        """The compensated stages by name; the value is the failure, if it failed."""

    @property
    def compensable(self) -> Collection[str]:
        """The stages that completed in earlier claims and had a compensation."""

    @property
    def reached_stage(self) -> str:
        """The name of the stage that an earlier claim had started, or empty."""


def preview(
    pipeline: Pipeline,
    failure: ErrorEnvelope,
    progress: CompensationProgress,
    affected: Collection[str],
) -> list[CompensationStep]:
    """Return the steps that a cancel would cause now.

    At the pivot every step is `AT_PIVOT`, until the pivot may have acted. From then on
    every step is `FORWARD_ONLY`. `affected` is as for `compensation_plan`.
    """
    if may_compensate(pipeline, failure.stage):
        return compensation_plan(pipeline, failure, progress, affected)
    untouched = pipeline.pivot_name == failure.stage and failure.stage not in affected
    state = StepState.AT_PIVOT if untouched else StepState.FORWARD_ONLY
    started = started_stages(pipeline, failure, progress, affected)
    return [CompensationStep(stage, state) for stage in reversed(started)]


def compensation_plan(
    pipeline: Pipeline,
    failure: ErrorEnvelope,
    progress: CompensationProgress,
    affected: Collection[str],
) -> list[CompensationStep]:
    """Return every started stage with its state, the last stage first.

    `affected`: the names of the stages with an effect that may have happened.
    """
    started = started_stages(pipeline, failure, progress, affected)
    removed = removed_stages(pipeline, progress, affected)
    return [
        *(CompensationStep(s, StepState.NOT_COMPENSABLE) for s in reversed(removed)),
        *(
            CompensationStep(s, step_state(s, progress, affected))
            for s in reversed(started)
        ),
    ]


def started_stages(
    pipeline: Pipeline,
    failure: ErrorEnvelope,
    progress: CompensationProgress,
    affected: Collection[str],
) -> list[Stage]:
    """Return the stages that completed, were reached or failed, in pipeline order."""
    started = {failure.stage, progress.reached_stage, *affected}
    started |= progress.completed.keys() | progress.compensated.keys()
    return [stage for stage in pipeline.stages if stage.name in started]


def removed_stages(
    pipeline: Pipeline, progress: CompensationProgress, affected: Collection[str]
) -> list[Stage]:
    """Return the stages of an earlier version whose effects nothing can compensate.

    They completed with a compensation, or have an effect that may have happened.
    """
    known = {stage.name for stage in pipeline.stages} | progress.compensated.keys()
    left = {*progress.compensable, *affected} - known
    return [
        Stage(_removed, name=name)
        for name in sorted(left)
        if not keys.is_compensation_stage(name)
    ]


def _removed(ctx: Context[Any]) -> None:
    """Stand for the function of a stage that the pipeline no longer has."""


def step_state(
    stage: Stage, progress: CompensationProgress, affected: Collection[str]
) -> StepState:
    """Return the state of a started stage.

    A completed stage is always compensated: it may have acted outside of its calls. Of
    any other stage the ledger knows whether something happened.
    """
    if stage.compensate is None:
        effects = stage.name in {*affected, *progress.compensable}
        return StepState.NOT_COMPENSABLE if effects else StepState.NOT_NEEDED
    if stage.name in progress.compensated:
        failed = progress.compensated[stage.name] is not None
        return StepState.FAILED if failed else StepState.COMPENSATED
    if stage.name in progress.completed:
        return StepState.DONE
    may_have_acted = stage.undo_if_failed or stage.name in affected
    return StepState.IN_DOUBT if may_have_acted else StepState.NOT_HAPPENED


# ── compensation of one claim ─────────────────────────────────────────────────
#
# Its events carry the correlation id of the `stage.completed` events, so that one trace
# shows the stages and their compensations.


@dataclass(frozen=True, slots=True)
class CompensationRun:
    """The compensation of a chunk by one claim."""

    pipeline: Pipeline
    ctx: Context[Any]
    checkpoints: Checkpoints
    failure: ErrorEnvelope

    def steps(self) -> list[CompensationStep]:
        """Return the started stages with their present states, the last stage first."""
        affected = self.ctx.caller.ledger.stages_with_effects()
        return compensation_plan(
            self.pipeline, self.failure, self.checkpoints, affected
        )

    def emit_started(self) -> None:
        """Emit which stages were started, and which of them are compensated now.

        Emits nothing if no step has a compensation, or leaves an effect.
        """
        steps = self.steps()
        if not is_told(steps):
            return
        telemetry.emit(
            self.ctx.log,
            "compensation.started",
            correlation_id=self.failure.correlation_id,
            error_code=self.failure.code,
            stage=self.failure.stage,
            steps=[step.stage.name for step in reversed(steps)],
            to_compensate=[step.stage.name for step in steps if step.is_due],
            no_effect=list(without_effect(steps)),
        )

    def emit_step(self, stage: Stage, failed: ErrorEnvelope | None) -> None:
        """Emit the result of one step; alarms depend on the failed ones."""
        log, trace = self.ctx.log, self.failure.correlation_id
        if failed is None:
            telemetry.emit(
                log,
                "compensation.stage_compensated",
                correlation_id=trace,
                stage=stage.name,
            )
        else:
            telemetry.emit(
                log,
                "compensation.stage_failed",
                correlation_id=trace,
                stage=stage.name,
                error_code=failed.code,
            )

    def emit_removed(self, stage: Stage) -> None:
        """Emit that a stage of an earlier version is not compensated: an alarm."""
        telemetry.emit(
            self.ctx.log,
            "compensation.stage_failed",
            correlation_id=self.failure.correlation_id,
            stage=stage.name,
            error_code="runtime.stage.not_found",
        )

    def finish(self) -> DeadLettered | Cancelled:
        """Emit the end of the compensation and return the outcome.

        The dead letter names the uncompensated stages, including stages without a
        compensation. It also names the stages that had nothing to compensate, because
        no effect of theirs happened.
        """
        steps = self.steps()
        for step in steps:
            if step.stage.run is _removed:
                self.emit_removed(step.stage)
        left = tuple(step.stage.name for step in steps if step.state in UNRESOLVED)
        untouched = without_effect(steps)
        compensated = any(step.state is StepState.COMPENSATED for step in steps)
        result = (
            CompensationResult.COMPENSATED
            if compensated
            else CompensationResult.NOT_NEEDED
        )
        if left:
            result = CompensationResult.FAILED
        if is_told(steps):
            telemetry.emit(
                self.ctx.log,
                "compensation.ended",
                correlation_id=self.failure.correlation_id,
                compensation=result.value,
                uncompensated=list(left),
                no_effect=list(untouched),
            )
        if self.failure.code == CANCEL_CODE and not left:
            return Cancelled(self.failure.stage, result)
        return DeadLettered(self.failure, result, left, untouched)


def needs_nothing(steps: Sequence[CompensationStep]) -> bool:
    """Return whether no step needs, or needed, a compensation."""
    return all(step.state in UNTOUCHED for step in steps)


def without_effect(steps: Sequence[CompensationStep]) -> tuple[str, ...]:
    """Return the stages whose compensation did not run: no effect happened."""
    return tuple(s.stage.name for s in steps if s.state is StepState.NOT_HAPPENED)


def is_told(steps: Sequence[CompensationStep]) -> bool:
    """Return whether a step has a compensation, or leaves an effect."""
    return any(step.state is not StepState.NOT_NEEDED for step in steps)


# ── cause of a compensation that a cancel requests ────────────────────────────

#: A chunk that compensates with this code ends CANCELLED; with any other code, DEAD.
CANCEL_CODE: Final = "job.cancel.requested"


def cancellation_cause(ref: ChunkRef, stage: str, at: float) -> ErrorEnvelope:
    """Return the envelope that records store as the cause of the compensation."""
    return ErrorEnvelope(
        code=CANCEL_CODE,
        error_class=ErrorClass.PERMANENT,
        message="The job was cancelled with compensation.",
        stage=stage,
        at=iso(at),
        correlation_id=f"{ref.job}/{ref.chunk}",
    )


def may_compensate(pipeline: Pipeline, stage: str) -> bool:
    """Return whether a chunk at this stage has not reached its pivot yet."""
    names = [s.name for s in pipeline.stages]
    return stage not in names or names.index(stage) < pipeline.pivot_index
