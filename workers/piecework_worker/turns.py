"""Whose turn a free slot is: the messages, next chunks, or the jobs of one priority.

Each has a share. The next turn is of the one that has had the least by its share, so
that none of them waits for ever. Within a priority the jobs take equal turns.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol, TypeAlias, TypeVar

from piecework.domain.model import JobRef
from piecework.domain.priority import Priority

MESSAGES: Final = "messages"
#: The next chunks of order keys, of jobs without a backlog.
NEXT: Final = "next"
Turn: TypeAlias = Literal["messages", "next"] | Priority

#: Chunks that start for each in the same time, while all of them wait. Messages are
#: small jobs, the first chunks of large ones, and retries: they come before backlogs,
#: so that a small job takes less than twice its time beside a large one.
SHARES: Final[dict[Turn, int]] = {
    MESSAGES: 12,
    NEXT: 12,
    Priority.HIGH: 12,
    Priority.NORMAL: 3,
    Priority.LOW: 2,
}


class Startable(Protocol):
    """What has chunks of one job that may start."""

    @property
    def ref(self) -> JobRef:
        """The job."""

    @property
    def sk(self) -> str:
        """Its place among others that have had as many chunks."""


S = TypeVar("S", bound=Startable)


@dataclass(slots=True)
class Turns:
    """What one worker has started, by share.

    Attributes:
        waiting: The turns that were possible last time.
    """

    waiting: frozenset[Turn] = frozenset()
    _started: dict[Turn, float] = field(
        default_factory=lambda: dict.fromkeys(SHARES, 0)
    )
    _jobs: dict[JobRef, int] = field(default_factory=dict)

    def next(self, waiting: Collection[Turn]) -> Turn:
        """Return whose turn it is. One that did not wait has saved nothing up."""
        known = [self._started[turn] for turn in self.waiting & set(waiting)]
        least = min(known, default=0.0)
        for turn in set(waiting) - self.waiting:
            self._started[turn] = max(self._started[turn], least)
        self.waiting = frozenset(waiting)
        # The order of `SHARES` decides a tie: that of a set is another in each process.
        tied = [turn for turn in SHARES if turn in waiting]
        return min(tied, key=self._started.__getitem__)

    def next_job(self, some: Sequence[S]) -> S:
        """Return the chunks of the job that has had the fewest from this worker."""
        present = {each.ref for each in some}
        known = {ref: n for ref, n in self._jobs.items() if ref in present}
        least = min(known.values(), default=0)
        self._jobs = {ref: known.get(ref, least) for ref in present}
        return min(some, key=lambda each: (self._jobs[each.ref], each.sk))

    def started(self, turn: Turn, chunks: int, ref: JobRef | None = None) -> None:
        """Count chunks that were started in a turn, and for a job."""
        self._started[turn] += chunks / SHARES[turn]
        if ref is not None:
            self._jobs[ref] = self._jobs.get(ref, 0) + chunks
