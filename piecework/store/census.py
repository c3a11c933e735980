"""A strongly consistent snapshot of a job's chunks: it decides that a job has ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import NamedTuple

from piecework import keys, layout
from piecework.model import Chunk, ChunkRef, ChunkStatus, JobRef
from piecework.ports import MissingChunk
from piecework.schema import is_newer, require_known
from piecework.store.table import Table


class Counted(NamedTuple):
    """The fields of a chunk in a snapshot; few, because a job may have many chunks."""

    chunk: int
    status: ChunkStatus
    result_sha256: str
    error_code: str
    label: str
    patched_sha256: str = ""


@dataclass(frozen=True, slots=True)
class JobSnapshot:
    """The chunks of a job at one time.

    Attributes:
        settled_at: When the last ended chunk ended.
        calls_after_cancel: Calls that ended after the cancel request.
        calls: Calls that a dependency answered, and that were paid for.
        cached_calls: Calls that a shared response answered.
    """

    rows: tuple[Counted, ...]
    settled_at: str = ""
    calls_after_cancel: int = 0
    calls: int = 0
    cached_calls: int = 0

    @property
    def by_status(self) -> Counter[str]:
        """How many chunks have each status."""
        return Counter(str(row.status) for row in self.rows)

    @property
    def by_code(self) -> Counter[str]:
        """How many dead chunks have each error code."""
        dead = (row for row in self.rows if row.status is ChunkStatus.DEAD)
        return Counter(row.error_code for row in dead)

    def quiesced_at(self, cancelled_at: str) -> str:
        """Return when the last chunk ended after a cancel."""
        return max(cancelled_at, self.settled_at)

    @property
    def missing(self) -> tuple[MissingChunk, ...]:
        """The chunks without a result."""
        return tuple(
            MissingChunk(row.chunk, row.label, str(row.status), row.error_code)
            for row in self.rows
            if row.status is not ChunkStatus.SUCCEEDED
        )


@dataclass(slots=True)
class SnapshotBuilder:
    """Collects the chunks of a snapshot."""

    rows: list[Counted]
    settled_at: str = ""
    calls_after_cancel: int = 0
    calls: int = 0
    cached_calls: int = 0

    def add(self, chunk: Chunk) -> None:
        """Add a chunk."""
        item = chunk.item
        row = Counted(
            chunk.ref.chunk,
            chunk.status,
            str(item.get("result_sha256", "")),
            str(item.get("error_code", "")),
            str(item.get("label", "")),
            str(item["payload_sha256"]) if "patched_in_gen" in item else "",
        )
        self.rows.append(row)
        self.settled_at = max(self.settled_at, str(item.get("settled_at", "")))
        self.calls_after_cancel += int(item.get("calls_after_cancel", 0))
        self.calls += int(item.get("calls", 0))
        self.cached_calls += int(item.get("cached_calls", 0))

    def build(self) -> JobSnapshot:
        """Return the snapshot."""
        return JobSnapshot(
            tuple(self.rows),
            self.settled_at,
            self.calls_after_cancel,
            self.calls,
            self.cached_calls,
        )


async def take_snapshot(table: Table, ref: JobRef, chunks: int) -> JobSnapshot:
    """Read every chunk of a job."""
    builder = SnapshotBuilder([])
    async for chunk in all_chunks(table, ref, chunks):
        builder.add(chunk)
    return builder.build()


async def all_chunks(
    table: Table, ref: JobRef, chunks: int, newer: list[ChunkRef] | None = None
) -> AsyncIterator[Chunk]:
    """Yield every chunk of a job, in order; append chunks of a newer schema to `newer`.

    Raises:
        SchemaTooNewError: A chunk has a newer schema, and `newer` is None.
    """
    for group in range(layout.partition_count(chunks)):
        async for chunk in chunks_of_group(table, ref, group, newer):
            yield chunk


async def chunks_of_group(
    table: Table, ref: JobRef, group: int, newer: list[ChunkRef] | None = None
) -> AsyncIterator[Chunk]:
    """Yield the chunks of one group of a job; see `all_chunks`."""
    pk = keys.partition_pk(ref.tenant, ref.job, group)
    async for item in table.query(pk, keys.CHUNK_PREFIX, any_version=True):
        chunk = ref.chunk(keys.chunk_number(item["sk"]))
        if newer is not None and is_newer(item):
            newer.append(chunk)
        else:
            yield Chunk.read(chunk, require_known(item))
