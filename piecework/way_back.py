"""Which stages are undone, and in which order: what is done, and what is foretold.

The engine walks these steps when it compensates, and
`piecework jobs cancel --compensate --dry-run` shows them before. Nothing here acts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from piecework.errors import ErrorEnvelope
from piecework.pipeline import Pipeline, Stage
from piecework.winding_back import may_go_back


class State(StrEnum):
    """How a stage stands that was begun."""

    #: Complete; it will be undone.
    DONE = "done"
    #: Begun, and nobody can tell how far it came; it will be undone as well.
    IN_DOUBT = "in doubt"
    UNDONE = "undone"
    FAILED = "compensation failed"
    #: It left something behind that nothing undoes.
    STANDING = "standing without compensation"
    NOTHING = "nothing to undo"
    ONWARDS = "past the pivot: goes forward"


#: A person has to see to what these left behind.
LEFT = frozenset({State.FAILED, State.STANDING})


@dataclass(frozen=True, slots=True)
class Step:
    """A stage on the way back."""

    stage: Stage
    state: State

    @property
    def to_undo(self) -> bool:
        """Whether its compensation is still to run."""
        return self.state in {State.DONE, State.IN_DOUBT} and bool(
            self.stage.compensate
        )


class Progress(Protocol):
    """The part of a chunk's checkpoints on which its way back depends."""

    @property
    def completed(self) -> Mapping[str, str]:
        """The value of each complete stage."""

    @property
    def undone(self) -> Mapping[str, ErrorEnvelope | None]:
        """The stages already compensated, and what failed there."""

    @property
    def entered(self) -> str:
        """The stage that an earlier claim had begun."""


def foreseen(
    pipeline: Pipeline,
    failure: ErrorEnvelope,
    progress: Progress,
    standing: Collection[str],
) -> list[Step]:
    """Return the steps of a chunk that a cancel would wind back, if it still may be."""
    if may_go_back(pipeline, failure.stage):
        return way_back(pipeline, failure, progress, standing)
    begun = stages_begun(pipeline, failure, progress)
    return [Step(stage, State.ONWARDS) for stage in reversed(begun)]


def way_back(
    pipeline: Pipeline,
    failure: ErrorEnvelope,
    progress: Progress,
    standing: Collection[str],
) -> list[Step]:
    """Return every stage that was begun, the last one first, and how it stands.

    `standing`: the stages of which an effect stands, or may stand.
    """
    begun = stages_begun(pipeline, failure, progress)
    return [Step(s, state_of(s, progress, standing)) for s in reversed(begun)]


def stages_begun(
    pipeline: Pipeline, failure: ErrorEnvelope, progress: Progress
) -> list[Stage]:
    """Return the stages up to and with the one that failed, in their order."""
    names = [stage.name for stage in pipeline.stages]
    last = names.index(failure.stage) if failure.stage in names else -1
    completed = [i for i, name in enumerate(names) if name in progress.completed]
    entered = names.index(progress.entered) if progress.entered in names else -1
    return list(pipeline.stages[: max([last, entered, *completed]) + 1])


def state_of(stage: Stage, progress: Progress, standing: Collection[str]) -> State:
    """Return how a stage stands that was begun."""
    if stage.compensate is None:
        return State.STANDING if stage.name in standing else State.NOTHING
    if stage.name in progress.undone:
        failed = progress.undone[stage.name] is not None
        return State.FAILED if failed else State.UNDONE
    return State.DONE if stage.name in progress.completed else State.IN_DOUBT
