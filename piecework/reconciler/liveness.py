"""Detect expired leases with as little trust in another machine's clock as possible.

A live owner changes the chunk's `(fence, renewals)` every third of a lease. The lease
has expired if they are unchanged for a whole lease on our own monotonic clock, whatever
the wall clocks of the two machines say. The DynamoDB lock client has the same method.

That alone would cost a reconciler that has just started a whole lease. So the end that
the owner wrote counts, too: together with half a lease without a change, which no live
owner lets pass, or when it is over for longer than two clocks may differ. A wrong
decision cannot harm the chunk: its former owner fails the condition of each write.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from piecework.domain import keys
from piecework.domain.chunk import Chunk
from piecework.domain.refs import ChunkRef, JobRef


def wait_s(
    unchanged_s: float, left_s: float, *, lease_s: float, skew_s: float
) -> float:
    """Return for how many seconds a lease may still be valid; 0: it has expired.

    Args:
        unchanged_s: Seconds for which we have seen the chunk unchanged.
        left_s: Seconds until the end that the owner wrote, on our wall clock.
        lease_s: Seconds that a lease lasts.
        skew_s: Seconds by which two wall clocks may differ.
    """
    by_sight = lease_s - unchanged_s
    by_both = max(lease_s / 2 - unchanged_s, left_s)
    by_clock = left_s + skew_s
    return max(0.0, min(by_sight, by_both, by_clock))


@dataclass(slots=True)
class LeaseObserver:
    """When each running chunk was first read in its present state."""

    _seen: dict[ChunkRef, tuple[tuple[int, int, int], float]] = field(
        default_factory=dict
    )

    def unchanged_for(self, chunk: Chunk, now: float) -> float:
        """Return for how many seconds the chunk has not changed."""
        mark = (chunk.gen, *chunk.renewal_mark)
        known = self._seen.get(chunk.ref)
        if known is None or known[0] != mark:
            self._seen[chunk.ref] = (mark, now)
            return 0.0
        return now - known[1]

    def forget(self, ref: JobRef) -> None:
        """Drop the observations of a job that has ended."""
        self._seen = {c: seen for c, seen in self._seen.items() if c.of != ref}

    def keep_only(self, ref: JobRef, groups: Collection[int]) -> None:
        """Drop the observations of a job outside the given groups."""
        self._seen = {
            chunk: seen
            for chunk, seen in self._seen.items()
            if chunk.of != ref or keys.group_of(chunk.chunk) in groups
        }

    def forget_chunk(self, chunk: ChunkRef) -> None:
        """Drop the observation of a chunk that is not running."""
        self._seen.pop(chunk, None)

    @property
    def is_watching(self) -> bool:
        """Whether any running chunk is being observed."""
        return bool(self._seen)
