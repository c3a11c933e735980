"""Tell a dead lease from a live one without trusting anybody's clock.

A holder that lives changes the chunk's `(fence, renewals)` every third of a lease.
Seen unchanged for a whole lease, on our own monotonic clock, it is dead, whatever the
wall clocks of the two machines say (the DynamoDB lock client's method).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from piecework import layout
from piecework.model import Chunk, ChunkRef, JobRef


@dataclass(slots=True)
class LeaseObserver:
    """When each running chunk was first seen as it is now."""

    _seen: dict[ChunkRef, tuple[tuple[int, int, int], float]] = field(
        default_factory=dict
    )

    def unchanged_for(self, chunk: Chunk, now: float) -> float:
        """Return for how many seconds the chunk has been seen as it is."""
        mark = (chunk.gen, *chunk.renewal_mark)
        known = self._seen.get(chunk.ref)
        if known is None or known[0] != mark:
            self._seen[chunk.ref] = (mark, now)
            return 0.0
        return now - known[1]

    def forget(self, ref: JobRef) -> None:
        """Drop what was seen of a job that has ended."""
        self._seen = {c: seen for c, seen in self._seen.items() if c.of != ref}

    def keep_only(self, ref: JobRef, groups: Collection[int]) -> None:
        """Drop what was seen in groups of a job that need no look any more."""
        self._seen = {
            chunk: seen
            for chunk, seen in self._seen.items()
            if chunk.of != ref or layout.partition_of(chunk.chunk) in groups
        }

    def lost_sight_of(self, chunk: ChunkRef) -> None:
        """Drop what was seen of a chunk that is not running."""
        self._seen.pop(chunk, None)

    @property
    def waiting(self) -> bool:
        """Whether a chunk is being watched."""
        return bool(self._seen)
