"""What a job has cost so far, as the processes that worked on it have counted.

One item for each kind of process. Additions only: any number may add, in any order. An
answer that was lost may let a count be added twice; a bill can live with that.

A deleted job gets no new item. A worker may meet a message of the job days after the
deletion, and an operator may show its tombstone; their counts are dropped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import islice

from piecework.domain import keys
from piecework.domain.model import JobRef, JobStatus
from piecework.store.table import Item, Refused, Table

#: Counts in one write: an expression may have 4 KB.
AT_ONCE = 50
#: The item is there: then the job was there when it was made, and the deletion removes
#: it. Without the clause, a count would make the item anew after the deletion.
EXISTS = "attribute_exists(pk)"


@dataclass(slots=True)
class Costs:
    """The counts of a deployment's jobs."""

    table: Table

    async def add(self, job: JobRef, actor: str, counts: Mapping[str, int]) -> None:
        """Add counts to those of a job; drop them if the job is deleted."""
        left = iter(sorted(counts.items()))
        while some := list(islice(left, AT_ONCE)):
            values = {f"n{index}": count for index, (_, count) in enumerate(some)}
            added = ", ".join(f"{name} :n{i}" for i, (name, _) in enumerate(some))
            write = self.table.item_write(
                "Update",
                job.pk,
                keys.cost_sk(actor),
                condition=EXISTS,
                update=f"ADD {added}",
                values=values,
            )
            reply = await self.table.update(write, returning="NONE")
            if isinstance(reply, Refused):
                if await self.is_gone(job):
                    return
                await self.table.update(replace(write, condition=""), returning="NONE")

    async def is_gone(self, job: JobRef) -> bool:
        """Return whether a job is deleted, or is being deleted."""
        row = await self.table.get(job.pk, keys.META_SK, any_version=True) or {}
        return row.get("status") in {JobStatus.DELETING, JobStatus.DELETED}

    async def of(self, job: JobRef) -> dict[str, Item]:
        """Return what was counted of a job, by who asked."""
        rows = self.table.query(job.pk, keys.COST_PREFIX)
        return {keys.actor_of_cost_sk(row["sk"]): row async for row in rows}
