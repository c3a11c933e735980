"""Decide which source fills a free slot: messages, next chunks, or one priority.

Each source has a share. The source that has had the least of its share comes next, so
that no source waits for ever. Within a priority the jobs take equal turns.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol, TypeAlias, TypeVar

from piecework.domain.priority import Priority
from piecework.domain.refs import JobRef

MESSAGES: Final = "messages"
#: The next chunks of order keys, of jobs without a backlog.
NEXT: Final = "next"
Turn: TypeAlias = Literal["messages", "next"] | Priority

#: Chunks that start for each source in the same time, while all of them wait. Messages
#: are small jobs, the first chunks of large ones, and retries. They come before
#: backlogs, so that a small job takes less than twice its time beside a large one.
SHARES: Final[dict[Turn, int]] = {
    MESSAGES: 12,
    NEXT: 12,
    Priority.HIGH: 12,
    Priority.NORMAL: 3,
    Priority.LOW: 2,
}


class Startable(Protocol):
    """Chunks of one job that may start: of a backlog, or next chunks."""

    @property
    def ref(self) -> JobRef:
        """The job."""

    @property
    def sk(self) -> str:
        """The sort key that breaks a tie."""


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
        """Return whose turn it is.

        A source that did not wait before starts level with the others.
        """
        known = [self._started[turn] for turn in self.waiting & set(waiting)]
        least = min(known, default=0.0)
        for turn in set(waiting) - self.waiting:
            self._started[turn] = max(self._started[turn], least)
        self.waiting = frozenset(waiting)
        # The order of `SHARES` decides a tie: the order of a set differs by process.
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
