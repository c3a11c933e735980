"""Count the calls of a claim, for its record and for the report of a cancel."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

#: End times that are kept, to count the calls that ended after a cancel.
MAX_END_TIMES = 10_000


@dataclass(slots=True)
class CallCounts:
    """The calls of a claim."""

    made: int = 0
    replayed: int = 0
    #: Answered from the cache that the jobs of a tenant share.
    cached: int = 0
    retried: int = 0
    #: Attempts that failed, or were cut off.
    failed: int = 0
    #: How often the chunk was deferred because a dependency could not be called.
    deferrals: int = 0
    #: Of the calls that a dependency answered, as far as it reports usage.
    tokens_in: int = 0
    tokens_out: int = 0
    #: The stage at which no earlier claim has attempted anything.
    untried: str = ""
    #: False while the claim compensates. Only the end times of forward calls are kept,
    #: and of those the latest.
    forward: bool = True
    end_times: deque[float] = field(default_factory=lambda: deque(maxlen=MAX_END_TIMES))
    #: `retried` and `failed` at the start of the current stage.
    _at_stage_start: tuple[int, int] = (0, 0)

    def start_stage(self) -> None:
        """Start to count for a new stage."""
        self._at_stage_start = self.retried, self.failed

    @property
    def stage_retried(self) -> bool:
        """Whether any call of the current stage was retried."""
        return self.retried > self._at_stage_start[0]

    @property
    def stage_failed(self) -> bool:
        """Whether any attempt of the current stage failed, or was cut off."""
        return self.failed > self._at_stage_start[1]

    def count_ended_after(self, moment: float) -> int:
        """Count the forward calls that ended after that moment."""
        return sum(end > moment for end in self.end_times)
