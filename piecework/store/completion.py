"""A strongly consistent snapshot of a job's chunks: it decides that a job has ended."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

from piecework.domain import keys
from piecework.domain.chunk import Chunk
from piecework.domain.job import Job
from piecework.domain.outcome import CompensationResult
from piecework.domain.protocols import MissingChunk
from piecework.domain.refs import ChunkRef, JobRef
from piecework.domain.schema import is_newer, require_known
from piecework.domain.states import ChunkStatus
from piecework.store.table import ItemWrite, Table, Written


class Counted(NamedTuple):
    """The fields of a chunk in a snapshot; few, because a job may have many chunks."""

    chunk: int
    status: ChunkStatus
    result_sha256: str
    error_code: str
    label: str
    patched_sha256: str = ""
    compensation: str = ""


@dataclass(slots=True)
class JobSnapshot:
    """The chunks of a job at one time.

    Attributes:
        ended_at: When the last ended chunk ended.
        calls_after_cancel: Calls that ended after the cancel request.
        calls: Calls of settled claims that a dependency answered and that were paid.
        cached_calls: Calls that a shared response answered.
        outages: How often an outage of AWS deferred a chunk.
        paid_again: Pure calls that newer code made again.
        unstable: The first call whose arguments differ in each run; empty: none.
        in_doubt: How many effects of each chunk are in doubt since its end.
        lost_claims: Claims that ended without a settlement; `calls` lacks their calls.
        by_version: How many chunks were claimed last by each code version.
    """

    rows: list[Counted] = field(default_factory=list)
    ended_at: str = ""
    calls_after_cancel: int = 0
    calls: int = 0
    cached_calls: int = 0
    outages: int = 0
    lost_claims: int = 0
    by_version: Counter[str] = field(default_factory=Counter)
    paid_again: int = 0
    in_doubt: dict[int, int] = field(default_factory=dict)
    unstable: Mapping[str, Any] = field(default_factory=dict)

    def add(self, chunk: Chunk) -> None:
        """Add a chunk, in the order of the chunks."""
        row = Counted(
            chunk.ref.chunk,
            chunk.status,
            chunk.result_sha256,
            chunk.error_code,
            chunk.label,
            chunk.payload_sha256 if chunk.has_patched_payload else "",
            compensation_of(chunk),
        )
        self.rows.append(row)
        self.ended_at = max(self.ended_at, chunk.ended_at)
        self.calls_after_cancel += chunk.calls_after_cancel
        self.calls += chunk.calls
        self.cached_calls += chunk.cached_calls
        self.outages += chunk.outages
        self.lost_claims += len(chunk.lost_fences)
        if version := chunk.code_version:
            self.by_version[version] += 1
        self.paid_again += chunk.calls_paid_again
        self.unstable = self.unstable or chunk.unstable_call
        if chunk.effects_in_doubt:
            self.in_doubt[chunk.ref.chunk] = chunk.effects_in_doubt

    @property
    def by_status(self) -> Counter[str]:
        """How many chunks have each status."""
        return Counter(str(row.status) for row in self.rows)

    @property
    def by_compensation(self) -> Counter[str]:
        """How many chunks without a result have each result of the compensation."""
        missing = (r for r in self.rows if r.status is not ChunkStatus.SUCCEEDED)
        return Counter(row.compensation for row in missing if row.compensation)

    @property
    def by_code(self) -> Counter[str]:
        """How many dead chunks have each error code."""
        dead = (row for row in self.rows if row.status is ChunkStatus.DEAD)
        return Counter(row.error_code for row in dead)

    def quiesced_at(self, cancelled_at: str) -> str:
        """Return when the last chunk ended after a cancel."""
        return max(cancelled_at, self.ended_at)

    @property
    def missing(self) -> tuple[MissingChunk, ...]:
        """The chunks without a result."""
        return tuple(
            MissingChunk(
                row.chunk, row.label, str(row.status), row.error_code, row.compensation
            )
            for row in self.rows
            if row.status is not ChunkStatus.SUCCEEDED
        )


async def take_snapshot(table: Table, ref: JobRef, chunks: int) -> JobSnapshot:
    """Read every chunk of a job."""
    snapshot = JobSnapshot()
    async for chunk in all_chunks(table, ref, chunks):
        snapshot.add(chunk)
    return snapshot


async def read_chunk(table: Table, ref: ChunkRef) -> Chunk | None:
    """Read a chunk; None: there is no such chunk.

    Raises:
        SchemaTooNewError: It has a newer schema.
        PermanentError: `runtime.record.unreadable`.
    """
    item = await table.get(ref.pk, ref.sk)
    return None if item is None else Chunk.read(ref, item)


async def read_chunks(table: Table, refs: Iterable[ChunkRef]) -> list[Chunk]:
    """Read some chunks one by one; those that do not exist are left out."""
    found = await asyncio.gather(*(read_chunk(table, ref) for ref in refs))
    return [chunk for chunk in found if chunk is not None]


async def all_chunks(
    table: Table, ref: JobRef, chunks: int, newer: list[ChunkRef] | None = None
) -> AsyncIterator[Chunk]:
    """Yield every chunk of a job, in order; append chunks of a newer schema to `newer`.

    Raises:
        SchemaTooNewError: A chunk has a newer schema, and `newer` is None.
    """
    for group in range(keys.partition_count(chunks)):
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


async def chunks_between(
    table: Table, ref: JobRef, numbers: range, newer: list[ChunkRef]
) -> AsyncIterator[Chunk]:
    """Yield neighbours of one group; append those of a newer schema to `newer`."""
    first, last = ref.chunk(numbers[0]), ref.chunk(numbers[-1])
    items = await table.first(first.pk, len(numbers), prefix=first.sk, last=last.sk)
    for item in items:
        chunk = ref.chunk(keys.chunk_number(item["sk"]))
        if is_newer(item):
            newer.append(chunk)
        else:
            yield Chunk.read(chunk, item)


# ── cache of the snapshots of ended jobs ──────────────────────────────────────
#
# Once every chunk of a generation has ended, none changes its status before the next
# generation. Only `reopen_chunk` changes that of an ended chunk, and only while the job
# is REOPENING in a later generation. An operator may still resolve a compensation. So
# the snapshot stays valid for the join and for the certificate. A worker that has no
# cached snapshot reads the chunks again.

#: Maximum rows of all cached snapshots; a single larger snapshot is kept too.
MOST_ROWS = 10_000


@dataclass(slots=True)
class SnapshotCache:
    """The snapshots of one process: of many small jobs, or of one large job."""

    _open: ChunkRef | None = None
    _kept: dict[tuple[JobRef, int], JobSnapshot] = field(default_factory=dict)

    async def ended(self, table: Table, job: Job) -> JobSnapshot | None:
        """Return the snapshot of a job whose chunks have all ended, else None.

        The read stops at the first chunk that has not ended. The next call checks that
        chunk first, because many workers call this while a large job is cancelled.
        """
        if await self._still_open(table, job):
            return None
        snapshot = JobSnapshot()
        async for chunk in all_chunks(table, job.ref, job.chunks):
            if not has_ended(chunk):
                self._open = chunk.ref
                return None
            snapshot.add(chunk)
        return snapshot

    async def _still_open(self, table: Table, job: Job) -> bool:
        ref = self._open
        if ref is None or ref.of != job.ref:
            return False
        chunk = await read_chunk(table, ref)
        return chunk is not None and not has_ended(chunk)

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
        """Remove and return the snapshot of a generation; None without one."""
        return self._kept.pop((ref, gen), None)


def compensation_of(chunk: Chunk) -> str:
    """Return the result of a chunk's compensation; empty while it is open.

    A chunk that was cancelled without compensation keeps what its stages did. A fence
    never falls: fence 0 means that no stage of the chunk has ever started.
    """
    if chunk.compensation or chunk.status is not ChunkStatus.CANCELLED:
        return chunk.compensation
    started = chunk.fence > 0
    return (
        CompensationResult.NOT_REQUESTED if started else CompensationResult.NOT_NEEDED
    )


def has_ended(chunk: Chunk) -> bool:
    """Return whether the chunk has ended."""
    return chunk.status.ended


# ── tallies of ended chunks ───────────────────────────────────────────────────
#
# A group of 256 chunks has one tally. The reply to an addition tells whether the group
# is full. The full groups of a job are a set on the job's item. In a job of more than
# 256 groups, each block of groups has such a set. The job's item then has the full
# blocks. One set of all groups would be large: a write is billed by its whole size. And
# every process reads the job's item. A tally only tells when a snapshot is worthwhile;
# the snapshot decides.

#: Sets on a job's item; a block's item has the first one too.
FULL_GROUPS, FULL_BLOCKS = "full_groups", "full_blocks"


@dataclass(slots=True)
class Tallies:
    """The tallies of a deployment's jobs."""

    table: Table

    async def add(
        self, ref: JobRef, group: int, ended: Iterable[int], chunks: int
    ) -> bool:
        """Add ended chunks of one group; return whether all of the job have ended."""
        numbers = set(ended)
        if not numbers:
            return False
        write = self.table.item_write(
            "Update",
            keys.partition_pk(ref.tenant, ref.job, group),
            keys.TALLY_SK,
            update="ADD ended_chunks :ended",
            values={"ended": numbers},
        )
        reply = await self.table.update(write, returning="UPDATED_NEW")
        if not isinstance(reply, Written):
            return False
        if len(reply.item["ended_chunks"]) < keys.partition_size(group, chunks):
            return False
        alone = keys.partition_count(chunks) == 1
        return alone or await self._group_full(ref, group, chunks)

    async def _group_full(self, ref: JobRef, group: int, chunks: int) -> bool:
        block, blocks = keys.block_of(group), keys.block_count(chunks)
        if blocks == 1:
            return keys.partition_count(chunks) <= await self._members(
                self._on_job(ref, FULL_GROUPS, group), FULL_GROUPS
            )
        size = keys.block_size(block, chunks)
        full = await self._members(self._on_block(ref, "ADD", group), FULL_GROUPS)
        return full >= size and blocks <= await self._members(
            self._on_job(ref, FULL_BLOCKS, block), FULL_BLOCKS
        )

    async def _members(self, addition: ItemWrite, name: str) -> int:
        """Add to a set; return its new size."""
        reply = await self.table.update(addition, returning="UPDATED_NEW")
        return len(reply.item[name]) if isinstance(reply, Written) else 0

    def _on_job(self, ref: JobRef, name: str, member: int) -> ItemWrite:
        return self.table.item_write(
            "Update",
            ref.pk,
            keys.META_SK,
            condition="attribute_exists(pk)",
            update=f"ADD {name} :full",
            values={"full": {member}},
        )

    def _on_block(self, ref: JobRef, verb: str, group: int) -> ItemWrite:
        return self.table.item_write(
            "Update",
            keys.block_pk(ref.tenant, ref.job, keys.block_of(group)),
            keys.BLOCK_SK,
            update=f"{verb} {FULL_GROUPS} :full",
            values={"full": {group}},
        )

    async def remove(self, ref: JobRef, group: int, reopened: Iterable[int]) -> None:
        """Remove reopened chunks, and their group, from the tallies."""
        removed = set(reopened)
        tally = self.table.item_write(
            "Update",
            keys.partition_pk(ref.tenant, ref.job, group),
            keys.TALLY_SK,
            update="DELETE ended_chunks :removed",
            values={"removed": removed},
        )
        await self.table.update(tally, returning="NONE")
        full = self.table.item_write(
            "Update",
            ref.pk,
            keys.META_SK,
            condition="attribute_exists(pk)",
            update=f"DELETE {FULL_GROUPS} :group, {FULL_BLOCKS} :block",
            values={"group": {group}, "block": {keys.block_of(group)}},
        )
        reply = await self.table.update(full)
        chunks = reply.item.get("chunks", 0) if isinstance(reply, Written) else 0
        if keys.block_count(chunks) > 1:
            block = self._on_block(ref, "DELETE", group)
            await self.table.update(block, returning="NONE")

    async def count_ended(self, ref: JobRef, chunks: int) -> int:
        """Return how many chunks have ended by the tallies; for progress bars.

        For a very large job only the first groups that are not full are read. That is
        enough, because chunks are dispatched in about their order.
        """
        full = await self._full_groups(ref, chunks)
        total = sum(keys.partition_size(group, chunks) for group in full)
        others = (g for g in range(keys.partition_count(chunks)) if g not in full)
        for group in islice(others, keys.BLOCK_SIZE):
            total += len(await self.ended_of_group(ref, group))
        return total

    async def ended_of_group(self, ref: JobRef, group: int) -> frozenset[int]:
        """Return the ended chunks of a group by its tally."""
        pk = keys.partition_pk(ref.tenant, ref.job, group)
        item = await self.table.get(pk, keys.TALLY_SK)
        return frozenset((item or {}).get("ended_chunks", ()))

    async def _full_groups(self, ref: JobRef, chunks: int) -> set[int]:
        """Return the full groups of a job of more than one block."""
        full: set[int] = set()
        blocks = keys.block_count(chunks)
        for block in range(blocks) if blocks > 1 else ():
            full |= await self.full_groups_of_block(ref, block)
        return full

    async def full_groups_of_block(self, ref: JobRef, block: int) -> frozenset[int]:
        """Return the full groups of a block by its tally."""
        pk = keys.block_pk(ref.tenant, ref.job, block)
        item = await self.table.get(pk, keys.BLOCK_SK)
        return frozenset((item or {}).get(FULL_GROUPS, ()))

    async def full_groups_of(self, ref: JobRef, blocks: Iterable[int]) -> set[int]:
        """Return the full groups of some blocks, in one request."""
        pks = [keys.block_pk(ref.tenant, ref.job, block) for block in blocks]
        found = await self.table.get_many((pk, keys.BLOCK_SK) for pk in pks)
        return {group for item in found.values() for group in item.get(FULL_GROUPS, ())}

    async def ended_of(self, groups: Iterable[tuple[JobRef, int]]) -> Counter[JobRef]:
        """Return how many chunks of some groups have ended, by job, in one request."""
        places = {
            (keys.partition_pk(ref.tenant, ref.job, group), keys.TALLY_SK): ref
            for ref, group in groups
        }
        ended: Counter[JobRef] = Counter()
        for place, item in (await self.table.get_many(places)).items():
            ended[places[place]] += len(item.get("ended_chunks", ()))
        return ended
