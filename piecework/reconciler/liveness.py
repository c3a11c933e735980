"""Detect expired leases without trust in another machine's clock.

A live owner changes the chunk's `(fence, renewals)` every third of a lease. The lease
has expired if they are unchanged for a whole lease on our own monotonic clock. The wall
clocks of the two machines do not count. The DynamoDB lock client has the same method.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from piecework.domain import keys
from piecework.domain.chunk import Chunk
from piecework.domain.refs import ChunkRef, JobRef


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
