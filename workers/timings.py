"""How long stages take here, as a stopping worker has to know: pure."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from statistics import median

#: Runs of a stage that are remembered, and fewer than which tell nothing.
KEPT = 20
ENOUGH = 3


@dataclass(frozen=True, slots=True)
class RunningStage:
    """A stage that runs, and since when."""

    pipeline: str
    stage: str
    since: float


@dataclass(slots=True)
class StageDurations:
    """What the stages of one worker took, in seconds."""

    _spent: dict[tuple[str, str], deque[float]] = field(default_factory=dict)

    def note(self, under_way: RunningStage, now: float) -> None:
        """Remember a stage that has ended well."""
        key = under_way.pipeline, under_way.stage
        spent = self._spent.setdefault(key, deque(maxlen=KEPT))
        spent.append(now - under_way.since)

    def fits(self, under_way: RunningStage, now: float, until: float) -> bool:
        """Say whether a stage may end in time, as far as anybody can tell.

        One that takes longer than it mostly does may end at any moment.
        """
        spent = self._spent.get((under_way.pipeline, under_way.stage), ())
        if len(spent) < ENOUGH:
            return True
        ends_at = under_way.since + median(spent)
        return ends_at <= max(now, until)
