"""Which chunks have ended: sets, so that counting one twice counts it once.

A group of 256 chunks has one tally. The reply to an addition says whether the group
is full; the full groups of a job are themselves tallied on the job's item. A tally
only says when it is worth looking: what decides is the look at all chunks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from piecework import keys
from piecework.model import JobRef
from piecework.store.table import Table, Written


@dataclass(slots=True)
class Tallies:
    """The tallies of a deployment's jobs."""

    table: Table

    async def add(
        self, ref: JobRef, group: int, ended: Iterable[int], chunks: int
    ) -> bool:
        """Count chunks of one group as ended; say whether all of the job's have."""
        settled = set(ended)
        if not settled:
            return False
        action = self.table.action(
            "Update",
            keys.group_pk(ref.tenant, ref.job, group),
            keys.TALLY_SK,
            update="ADD settled :settled",
            values={"settled": settled},
        )
        reply = await self.table.update(action, returning="UPDATED_NEW")
        if not isinstance(reply, Written):
            return False
        if len(reply.item["settled"]) < keys.group_size(group, chunks):
            return False
        groups = keys.groups_in(chunks)
        return groups == 1 or await self._group_full(ref, group, groups)

    async def _group_full(self, ref: JobRef, group: int, groups: int) -> bool:
        action = self.table.action(
            "Update",
            ref.pk,
            keys.META_SK,
            condition="attribute_exists(pk)",
            update="ADD full_groups :group",
            values={"group": {group}},
        )
        reply = await self.table.update(action, returning="UPDATED_NEW")
        if not isinstance(reply, Written):
            return False
        return len(reply.item["full_groups"]) >= groups

    async def remove(self, ref: JobRef, group: int, reopened: Iterable[int]) -> None:
        """Take reopened chunks, and their group, out of the tallies."""
        removed = set(reopened)
        tally = self.table.action(
            "Update",
            keys.group_pk(ref.tenant, ref.job, group),
            keys.TALLY_SK,
            update="DELETE settled :removed",
            values={"removed": removed},
        )
        await self.table.update(tally, returning="NONE")
        full = self.table.action(
            "Update",
            ref.pk,
            keys.META_SK,
            condition="attribute_exists(pk)",
            update="DELETE full_groups :group",
            values={"group": {group}},
        )
        await self.table.update(full, returning="NONE")

    async def settled(self, ref: JobRef, chunks: int) -> int:
        """Return how many chunks the tallies know to have ended; for progress bars."""
        total = 0
        for group in range(keys.groups_in(chunks)):
            item = await self.table.get(
                keys.group_pk(ref.tenant, ref.job, group), keys.TALLY_SK
            )
            total += len((item or {}).get("settled", ()))
        return total
