"""The compensation of one claim: its steps, events and outcome.

Its events carry the correlation id of the `stage.completed` events, so that one trace
shows the stages and their compensations.
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

        Emits nothing if no step needs a compensation.
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

    def finish(self) -> DeadLettered | Cancelled:
        """Emit the end of the compensation and return the outcome.

        The dead letter names the uncompensated stages, including stages without a
        compensation.
        """
        steps = self.steps()
        left = tuple(step.stage.name for step in steps if step.state in UNRESOLVED)
        compensated = any(step.stage.compensate for step in steps)
        result = Compensation.COMPENSATED if compensated else Compensation.NOT_NEEDED
        if left:
            result = Compensation.FAILED
        if not needs_nothing(steps):
            telemetry.emit(
                self.ctx.log,
                "compensation.ended",
                correlation_id=self.failure.correlation_id,
                compensation=result.value,
                uncompensated=list(left),
            )
        if self.failure.code == CANCEL_CODE and not left:
            return Cancelled(self.failure.stage, result)
        return DeadLettered(self.failure, result, left)


def needs_nothing(steps: Sequence[CompensationStep]) -> bool:
    """Return whether no step needs, or needed, a compensation."""
    return all(step.state is StepState.NOT_NEEDED for step in steps)
