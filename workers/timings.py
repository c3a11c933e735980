"""How long stages take here, as a stopping worker has to know: pure."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from statistics import median

#: Runs of a stage that are remembered, and fewer than which tell nothing.
MAX_SAMPLES = 20
MIN_SAMPLES = 3


@dataclass(frozen=True, slots=True)
class RunningStage:
    """A stage that runs, and since when."""

    pipeline: str
    stage: str
    started_at: float


@dataclass(slots=True)
class StageDurations:
    """What the stages of one worker took, in seconds."""

    _durations: dict[tuple[str, str], deque[float]] = field(default_factory=dict)

    def record(self, under_way: RunningStage, now: float) -> None:
        """Remember a stage that has ended well."""
        key = under_way.pipeline, under_way.stage
        durations = self._durations.setdefault(key, deque(maxlen=MAX_SAMPLES))
        durations.append(now - under_way.started_at)

    def may_finish_by(self, under_way: RunningStage, now: float, until: float) -> bool:
        """Say whether a stage may end in time, as far as anybody can tell.

        One that takes longer than it mostly does may end at any moment.
        """
        durations = self._durations.get((under_way.pipeline, under_way.stage), ())
        if len(durations) < MIN_SAMPLES:
            return True
        ends_at = under_way.started_at + median(durations)
        return ends_at <= max(now, until)
