"""A cache of the snapshots of ended jobs, so that one read of all chunks is enough.

Once every chunk of a life of a job has ended none changes before the next life: only
`reopen_chunk` moves an ended chunk, under a job that is RESUMING in a later generation.
So what was seen is what the join finds and what the certificate says, however much
later; a worker that has not seen it itself looks again.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from piecework.model import Chunk, ChunkRef, Job, JobRef
from piecework.store.census import JobSnapshot, SnapshotBuilder, all_chunks
from piecework.store.table import Table

#: Rows of the censuses that are kept, unless one alone has more.
MOST_ROWS = 10_000


@dataclass(slots=True)
class SnapshotCache:
    """What one process has seen: of many small jobs, or of one that is large."""

    _open: ChunkRef | None = None
    _kept: dict[tuple[JobRef, int], JobSnapshot] = field(default_factory=dict)

    async def ended(self, table: Table, job: Job) -> JobSnapshot | None:
        """Return the snapshot of a job whose chunks have all ended, else None.

        It goes as far as the first that has not, and the next look begins there: while
        a large job is being cancelled many ask.
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
        """Keep what was seen for the join of this life of the job.

        The oldest go first: another worker has taken their joins.
        """
        self._kept.pop((job.ref, job.gen), None)
        self._kept[job.ref, job.gen] = snapshot
        rows = sum(1 + len(each.rows) for each in self._kept.values())
        while rows > MOST_ROWS and len(self._kept) > 1:
            oldest = next(iter(self._kept))
            rows -= 1 + len(self._kept.pop(oldest).rows)

    def take(self, ref: JobRef, gen: int) -> JobSnapshot | None:
        """Return what was kept for the join of a life of a job, once; None: nothing."""
        return self._kept.pop((ref, gen), None)


def has_ended(chunk: Chunk) -> bool:
    """Say whether a chunk has nothing left to do."""
    return chunk.status.terminal
