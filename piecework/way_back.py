"""List the stages to compensate, in order: the plan that the engine executes.

The engine walks these steps when it compensates a chunk. The command that previews a
cancel shows the same steps. This module only computes; it changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from piecework.errors import ErrorEnvelope
from piecework.pipeline import Pipeline, Stage
from piecework.winding_back import may_compensate


class StepState(StrEnum):
    """The state of a stage that was started."""

    #: Completed; its compensation will run.
    DONE = "done"
    #: Started, and its progress is unknown; its compensation will run, too.
    IN_DOUBT = "in doubt"
    COMPENSATED = "compensated"
    FAILED = "compensation failed"
    #: An effect remains, and the stage has no compensation.
    NOT_COMPENSABLE = "effect remains, no compensation"
    NOT_NEEDED = "nothing to compensate"
    FORWARD_ONLY = "past the pivot: goes forward"


#: An operator must repair the effects that these stages left.
UNRESOLVED = frozenset({StepState.FAILED, StepState.NOT_COMPENSABLE})


@dataclass(frozen=True, slots=True)
class CompensationStep:
    """A stage and its state in a compensation."""

    stage: Stage
    state: StepState

    @property
    def is_due(self) -> bool:
        """Whether the stage's compensation has still to run."""
        return self.state in {StepState.DONE, StepState.IN_DOUBT} and bool(
            self.stage.compensate
        )


class Progress(Protocol):
    """The part of a chunk's checkpoints on which its compensation depends."""

    @property
    def completed(self) -> Mapping[str, str]:
        """The JSON value of each completed stage, by stage name."""

    @property
    def compensated(self) -> Mapping[str, ErrorEnvelope | None]:
        """The compensated stages by name; the value is the failure, if it failed."""

    @property
    def reached_stage(self) -> str:
        """The name of the stage that an earlier claim had started, or empty."""


def preview(
    pipeline: Pipeline,
    failure: ErrorEnvelope,
    progress: Progress,
    affected: Collection[str],
) -> list[CompensationStep]:
    """Return the steps that a cancel would cause now.

    After the pivot every step is `FORWARD_ONLY`. `affected` is as for
    `compensation_plan`.
    """
    if may_compensate(pipeline, failure.stage):
        return compensation_plan(pipeline, failure, progress, affected)
    started = started_stages(pipeline, failure, progress)
    return [
        CompensationStep(stage, StepState.FORWARD_ONLY) for stage in reversed(started)
    ]


def compensation_plan(
    pipeline: Pipeline,
    failure: ErrorEnvelope,
    progress: Progress,
    affected: Collection[str],
) -> list[CompensationStep]:
    """Return every started stage with its state, the last stage first.

    `affected`: the names of the stages with an effect that may have happened.
    """
    started = started_stages(pipeline, failure, progress)
    return [
        CompensationStep(s, step_state(s, progress, affected))
        for s in reversed(started)
    ]


def started_stages(
    pipeline: Pipeline, failure: ErrorEnvelope, progress: Progress
) -> list[Stage]:
    """Return the stages up to the failed one, inclusive, in pipeline order."""
    names = [stage.name for stage in pipeline.stages]
    last = names.index(failure.stage) if failure.stage in names else -1
    completed = [i for i, name in enumerate(names) if name in progress.completed]
    reached = progress.reached_stage
    earlier = names.index(reached) if reached in names else -1
    return list(pipeline.stages[: max([last, earlier, *completed]) + 1])


def step_state(
    stage: Stage, progress: Progress, affected: Collection[str]
) -> StepState:
    """Return the state of a started stage."""
    if stage.compensate is None:
        effects = stage.name in affected
        return StepState.NOT_COMPENSABLE if effects else StepState.NOT_NEEDED
    if stage.name in progress.compensated:
        failed = progress.compensated[stage.name] is not None
        return StepState.FAILED if failed else StepState.COMPENSATED
    return StepState.DONE if stage.name in progress.completed else StepState.IN_DOUBT
