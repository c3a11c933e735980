"""What a job has cost so far, as the processes that worked on it have counted.

One item for each kind of process. Additions only: any number may add, in any order. An
answer that was lost may let a count be added twice; a bill can live with that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice

from piecework.domain import keys
from piecework.domain.refs import JobRef
from piecework.store.table import Item, Table

#: Counts in one write: an expression may have 4 KB.
AT_ONCE = 50


@dataclass(slots=True)
class Costs:
    """The counts of a deployment's jobs."""

    table: Table

    async def add(self, job: JobRef, actor: str, counts: Mapping[str, int]) -> None:
        """Add counts to those of a job."""
        left = iter(sorted(counts.items()))
        while some := list(islice(left, AT_ONCE)):
            values = {f"n{index}": count for index, (_, count) in enumerate(some)}
            added = ", ".join(f"{name} :n{i}" for i, (name, _) in enumerate(some))
            write = self.table.item_write(
                "Update",
                job.pk,
                keys.cost_sk(actor),
                update=f"ADD {added}",
                values=values,
            )
            await self.table.update(write, returning="NONE")

    async def of(self, job: JobRef) -> dict[str, Item]:
        """Return what was counted of a job, by who asked."""
        rows = self.table.query(job.pk, keys.COST_PREFIX)
        return {keys.actor_of_cost_sk(row["sk"]): row async for row in rows}
