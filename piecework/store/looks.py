"""A cache of the snapshots of ended jobs, so that one read of all chunks is enough.

Once every chunk of a generation has ended, no chunk changes before the next generation:
only `reopen_chunk` changes an ended chunk, and only while the job is RESUMING in a
later generation. So the snapshot stays valid for the join and for the certificate. A
worker that has no cached snapshot reads the chunks again.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from piecework.model import Chunk, ChunkRef, Job, JobRef
from piecework.store.census import JobSnapshot, SnapshotBuilder, all_chunks
from piecework.store.table import Table

#: Maximum rows of all cached snapshots; a single larger snapshot is kept too.
MOST_ROWS = 10_000


@dataclass(slots=True)
class SnapshotCache:
    """The snapshots of one process: of many small jobs, or of one large job."""

    _open: ChunkRef | None = None
    _kept: dict[tuple[JobRef, int], JobSnapshot] = field(default_factory=dict)

    async def ended(self, table: Table, job: Job) -> JobSnapshot | None:
        """Return the snapshot of a job whose chunks have all ended, else None.

        The read stops at the first chunk that has not ended, and the next call checks
        that chunk first: many workers call this while a large job is cancelled.
        """
        if await self._still_open(table, job):
            return None
        builder = SnapshotBuilder([])
        async for chunk in all_chunks(table, job.ref, job.chunks):
            if not has_ended(chunk):
                self._open = chunk.ref
                return None
            builder.add(chunk)
        return builder.build()

    async def _still_open(self, table: Table, job: Job) -> bool:
        ref = self._open
        if ref is None or ref.of != job.ref:
            return False
        item = await table.get(ref.pk, ref.sk)
        return item is not None and not has_ended(Chunk.read(ref, item))

    def keep(self, job: Job, snapshot: JobSnapshot) -> None:
        """Keep a snapshot for the join of this generation.

        The oldest snapshots are dropped first: other workers run their joins.
        """
        self._kept.pop((job.ref, job.gen), None)
        self._kept[job.ref, job.gen] = snapshot
        rows = sum(1 + len(each.rows) for each in self._kept.values())
        while rows > MOST_ROWS and len(self._kept) > 1:
            oldest = next(iter(self._kept))
            rows -= 1 + len(self._kept.pop(oldest).rows)

    def take(self, ref: JobRef, gen: int) -> JobSnapshot | None:
        """Remove and return the snapshot of a generation; None: there is none."""
        return self._kept.pop((ref, gen), None)


def has_ended(chunk: Chunk) -> bool:
    """Return whether the chunk has ended."""
    return chunk.status.terminal
