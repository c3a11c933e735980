"""What a claim spends on calls: for its record, and for what a cancel came too late."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

#: Moments at which calls ended that are kept for the count after a cancel.
ENDS_KEPT = 10_000


@dataclass(slots=True)
class CallCounts:
    """What a claim spent on calls."""

    made: int = 0
    replayed: int = 0
    #: Answered by what another job, or another chunk, has paid for.
    cached: int = 0
    retried: int = 0
    #: Attempts that failed, or were cut off.
    failed: int = 0
    #: How often the chunk has waited for a dependency that nobody asked.
    parks: int = 0
    #: Of the calls that were answered outside, as far as their dependencies say.
    tokens_in: int = 0
    tokens_out: int = 0
    #: The stage at which no claim before this one has tried anything.
    untried: str = ""
    #: Whether calls are those of the work, not of undoing it; when those ended, the
    #: latest of them.
    forward: bool = True
    ends: deque[float] = field(default_factory=lambda: deque(maxlen=ENDS_KEPT))
    #: What was retried, and failed, before the stage at hand.
    _before: tuple[int, int] = (0, 0)

    def enter(self) -> None:
        """Begin a stage: what failed before it says nothing of it."""
        self._before = self.retried, self.failed

    @property
    def retried_here(self) -> bool:
        """Whether any call of the stage at hand was tried again."""
        return self.retried > self._before[0]

    @property
    def failed_here(self) -> bool:
        """Whether any attempt of the stage at hand failed, or was cut off."""
        return self.failed > self._before[1]

    def ended_after(self, moment: float) -> int:
        """Count the calls of the work that ended after a moment."""
        return sum(end > moment for end in self.ends)
