"""Tallies of ended chunks: sets, so that a chunk that is added twice counts once.

A group of 256 chunks has one tally. The reply to an addition tells whether the group is
full. The full groups of a job are a set on the job's item. In a job of more than 256
groups each block of groups has such a set, and the job's item has the full blocks: a
write is billed by the size of the whole set, and every process reads the job's item. A
tally only tells when a snapshot is worthwhile; the snapshot decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from piecework import keys, layout
from piecework.model import JobRef
from piecework.store.table import Action, Table, Written

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
        action = self.table.action(
            "Update",
            keys.partition_pk(ref.tenant, ref.job, group),
            keys.TALLY_SK,
            update="ADD ended_chunks :ended",
            values={"ended": numbers},
        )
        reply = await self.table.update(action, returning="UPDATED_NEW")
        if not isinstance(reply, Written):
            return False
        if len(reply.item["ended_chunks"]) < layout.partition_size(group, chunks):
            return False
        alone = layout.partition_count(chunks) == 1
        return alone or await self._group_full(ref, group, chunks)

    async def _group_full(self, ref: JobRef, group: int, chunks: int) -> bool:
        block, blocks = layout.block_of(group), layout.block_count(chunks)
        if blocks == 1:
            return layout.partition_count(chunks) <= await self._members(
                self._on_job(ref, FULL_GROUPS, group), FULL_GROUPS
            )
        size = layout.block_size(block, chunks)
        full = await self._members(self._on_block(ref, "ADD", group), FULL_GROUPS)
        return full >= size and blocks <= await self._members(
            self._on_job(ref, FULL_BLOCKS, block), FULL_BLOCKS
        )

    async def _members(self, addition: Action, name: str) -> int:
        """Add to a set; return its new size."""
        reply = await self.table.update(addition, returning="UPDATED_NEW")
        return len(reply.item[name]) if isinstance(reply, Written) else 0

    def _on_job(self, ref: JobRef, name: str, member: int) -> Action:
        return self.table.action(
            "Update",
            ref.pk,
            keys.META_SK,
            condition="attribute_exists(pk)",
            update=f"ADD {name} :full",
            values={"full": {member}},
        )

    def _on_block(self, ref: JobRef, verb: str, group: int) -> Action:
        first = layout.block_of(group) * layout.BLOCK_SIZE
        return self.table.action(
            "Update",
            keys.partition_pk(ref.tenant, ref.job, first),
            keys.BLOCK_SK,
            update=f"{verb} {FULL_GROUPS} :full",
            values={"full": {group}},
        )

    async def remove(self, ref: JobRef, group: int, reopened: Iterable[int]) -> None:
        """Remove reopened chunks, and their group, from the tallies."""
        removed = set(reopened)
        tally = self.table.action(
            "Update",
            keys.partition_pk(ref.tenant, ref.job, group),
            keys.TALLY_SK,
            update="DELETE ended_chunks :removed",
            values={"removed": removed},
        )
        await self.table.update(tally, returning="NONE")
        full = self.table.action(
            "Update",
            ref.pk,
            keys.META_SK,
            condition="attribute_exists(pk)",
            update=f"DELETE {FULL_GROUPS} :group, {FULL_BLOCKS} :block",
            values={"group": {group}, "block": {layout.block_of(group)}},
        )
        reply = await self.table.update(full)
        if isinstance(reply, Written) and layout.block_count(chunks_of(reply.item)) > 1:
            block = self._on_block(ref, "DELETE", group)
            await self.table.update(block, returning="NONE")

    async def count_ended(self, ref: JobRef, chunks: int) -> int:
        """Return how many chunks have ended by the tallies; for progress bars.

        For a very large job only the first groups that are not full are read, because
        chunks are dispatched in about their order.
        """
        full = await self._full_groups(ref, chunks)
        total = sum(layout.partition_size(group, chunks) for group in full)
        others = (g for g in range(layout.partition_count(chunks)) if g not in full)
        for group in islice(others, layout.BLOCK_SIZE):
            pk = keys.partition_pk(ref.tenant, ref.job, group)
            item = await self.table.get(pk, keys.TALLY_SK)
            total += len((item or {}).get("ended_chunks", ()))
        return total

    async def _full_groups(self, ref: JobRef, chunks: int) -> set[int]:
        """Return the full groups of a job of more than one block."""
        full: set[int] = set()
        blocks = layout.block_count(chunks)
        for block in range(blocks) if blocks > 1 else ():
            pk = keys.partition_pk(ref.tenant, ref.job, block * layout.BLOCK_SIZE)
            item = await self.table.get(pk, keys.BLOCK_SK)
            full |= set((item or {}).get(FULL_GROUPS, ()))
        return full


def chunks_of(job: Mapping[str, Any]) -> int:
    """Return the number of chunks of a job's item."""
    return int(job.get("chunks", 0))


def ended_at_least(job: Mapping[str, Any]) -> int:
    """Return the minimum number of ended chunks, from a large job's item alone."""
    full = len(job.get(FULL_GROUPS, ()))
    full += len(job.get(FULL_BLOCKS, ())) * layout.BLOCK_SIZE
    return min(full * layout.PARTITION_SIZE, chunks_of(job))
