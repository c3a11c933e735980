"""What a join reads and writes: the results of its job, as a stream."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from piecework import keys, layout
from piecework.errors import StateError
from piecework.model import ChunkStatus, JobRef
from piecework.objects import Objects
from piecework.ports import MissingChunk, StoredResult
from piecework.store.census import JobSnapshot, chunks_of_group
from piecework.store.results import NULL, stored_results
from piecework.store.table import Item, Table


@dataclass(frozen=True, slots=True)
class StoredJobResults:
    """The harvest of one job, whose chunks have all ended."""

    table: Table
    objects: Objects
    ref: JobRef
    snapshot: JobSnapshot

    @property
    def missing(self) -> Sequence[MissingChunk]:
        """The chunks that have no result."""
        return self.snapshot.missing

    async def results(self) -> AsyncIterator[StoredResult]:
        """Yield the result of each chunk that succeeded, in order.

        Raises:
            StateError: `runtime.state.checkpoint_corrupt`: a result is not the one
                that its chunk settled with.
        """
        rows = self.snapshot.rows
        for group in range(layout.partition_count(len(rows))):
            stored = await self._stored(group)
            first = group * layout.PARTITION_SIZE
            for row in rows[first : first + layout.PARTITION_SIZE]:
                if row.status is not ChunkStatus.SUCCEEDED:
                    continue
                value = await self._value(stored.get(row.chunk))
                if keys.sha256(value.encode()) != row.result_sha256:
                    message = (
                        f"Chunk {row.chunk} did not settle with its stored result."
                    )
                    raise StateError(message, code="runtime.state.checkpoint_corrupt")
                yield StoredResult(row.chunk, row.label, value)

    async def _value(self, item: Item | None) -> str:
        prefix = keys.object_prefix(self.ref.tenant, self.ref.job)
        return NULL if item is None else await self.objects.fetch(item, prefix)

    async def _stored(self, group: int) -> dict[int, Item | None]:
        """Return what holds the result of each chunk of a group, by its number."""
        chunks = [c async for c in chunks_of_group(self.table, self.ref, group)]
        pk = keys.partition_pk(self.ref.tenant, self.ref.job, group)
        stored = await stored_results(self.table, pk, chunks)
        return {chunk.ref.chunk: item for chunk, item in stored}

    async def write(self, name: str, content: bytes, media_type: str) -> str:
        """Save an artifact of the job; return its key."""
        key = artifact_key(self.ref, name)
        return await self.objects.put(key, content, media_type)


def artifact_key(ref: JobRef, name: str) -> str:
    """Return the object of an artifact."""
    return f"{keys.object_prefix(ref.tenant, ref.job)}/artifacts/{name}"
