"""How long the stages of one worker take, and which of them run.

A stopping worker waits only for stages that may end in time.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from statistics import median

#: Samples kept per stage, and the fewest samples for an estimate.
MAX_SAMPLES = 20
MIN_SAMPLES = 3


@dataclass(frozen=True, slots=True)
class RunningStage:
    """A running stage and its start."""

    pipeline: str
    stage: str
    started_at: float


@dataclass(slots=True)
class StageDurations:
    """The durations of one worker's stages in seconds.

    Attributes:
        running: The running stage of each claim, by its token.
    """

    running: dict[str, RunningStage] = field(default_factory=dict)
    _durations: dict[tuple[str, str], deque[float]] = field(default_factory=dict)

    def record(self, under_way: RunningStage, now: float) -> None:
        """Record the duration of a stage that succeeded."""
        key = under_way.pipeline, under_way.stage
        durations = self._durations.setdefault(key, deque(maxlen=MAX_SAMPLES))
        durations.append(now - under_way.started_at)

    def may_finish_by(self, under_way: RunningStage, now: float, until: float) -> bool:
        """Return whether a stage may end before `until`.

        A stage that has run longer than its median may end at any moment.
        """
        durations = self._durations.get((under_way.pipeline, under_way.stage), ())
        if len(durations) < MIN_SAMPLES:
            return True
        ends_at = under_way.started_at + median(durations)
        return ends_at <= max(now, until)
