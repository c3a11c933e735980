"""One way back as a whole: its steps, what is told of it, and what it came to.

Its events and those of the steps it takes back carry one correlation id, so that a
trace shows both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from piecework import telemetry
from piecework.context import Context
from piecework.errors import ErrorEnvelope
from piecework.outcome import Cancelled, Compensation, DeadLettered
from piecework.pipeline import Pipeline, Stage
from piecework.ports import Checkpoints
from piecework.way_back import (
    UNRESOLVED,
    CompensationStep,
    StepState,
    compensation_plan,
)
from piecework.winding_back import CANCEL_CODE


@dataclass(frozen=True, slots=True)
class CompensationRun:
    """The compensations of a chunk's claim."""

    pipeline: Pipeline
    ctx: Context[Any]
    checkpoints: Checkpoints
    failure: ErrorEnvelope

    def steps(self) -> list[CompensationStep]:
        """Return the stages that were begun, the last one first, as they stand now."""
        standing = self.ctx.caller.ledger.stages_with_effects()
        return compensation_plan(
            self.pipeline, self.failure, self.checkpoints, standing
        )

    def emit_started(self) -> None:
        """Tell which steps were taken, and which of them are to be undone now.

        Of steps that leave nothing behind there is nothing to tell.
        """
        steps = self.steps()
        if needs_nothing(steps):
            return
        telemetry.emit(
            self.ctx.log,
            "compensation.started",
            correlation_id=self.failure.correlation_id,
            error_code=self.failure.code,
            stage=self.failure.stage,
            steps=[step.stage.name for step in reversed(steps)],
            to_compensate=[step.stage.name for step in steps if step.is_due],
        )

    def emit_step(self, stage: Stage, failed: ErrorEnvelope | None) -> None:
        """Tell what became of one step; alarms stand on those that failed."""
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

    def finish(self) -> DeadLettered | Cancelled:
        """Return what the way back came to, and tell it.

        The dead letter names the stages that are left standing, those that nothing
        undoes included.
        """
        steps = self.steps()
        left = tuple(step.stage.name for step in steps if step.state in UNRESOLVED)
        undoes = any(step.stage.compensate for step in steps)
        came_to = Compensation.COMPENSATED if undoes else Compensation.NOT_NEEDED
        if left:
            came_to = Compensation.FAILED
        if not needs_nothing(steps):
            telemetry.emit(
                self.ctx.log,
                "compensation.ended",
                correlation_id=self.failure.correlation_id,
                compensation=came_to.value,
                uncompensated=list(left),
            )
        if self.failure.code == CANCEL_CODE and not left:
            return Cancelled(self.failure.stage, came_to)
        return DeadLettered(self.failure, came_to, left)


def needs_nothing(steps: Sequence[CompensationStep]) -> bool:
    """Say whether none of the steps is, or was, to be undone or left anything."""
    return all(step.state is StepState.NOT_NEEDED for step in steps)
