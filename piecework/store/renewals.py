"""The writes of a renewal: the rows of a job that is not deleted yet live longer.

`piecework.jobs.renewal` says when and in which order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from piecework.domain import keys
from piecework.domain.job import Job
from piecework.store.deletions import THIS_END, relisting
from piecework.store.table import Table, Written

#: The renewal goes on from where the reconciler has read it, in the same state of the
#: job. So a copy of a request that arrives late changes nothing.
THIS_RENEWAL = f"{THIS_END} AND rows_until = :until AND renew_at = :due"
#: The row exists, has a time, and that is earlier.
LIVES_SHORTER = "expires_at < :until"


@dataclass(slots=True)
class Renewals:
    """The renewals of a deployment's jobs."""

    table: Table

    async def note(
        self, job: Job, swept: int | None, facts: Mapping[str, str] | None = None
    ) -> bool:
        """Record how many partitions are swept; None: the renewal is complete.

        `facts`: `rows_until` and `renew_at`, as far as they change. An ended job moves
        in the index with them. False: the job has changed, and a later pass goes on.
        """
        changes = dict(facts or {})
        values: dict[str, Any] = {f"new_{name}": at for name, at in changes.items()}
        assigned = [f"{name} = :new_{name}" for name in changes]
        if swept is not None:
            assigned.append("renewed_partitions = :swept")
            values["swept"] = swept
        update = f"SET {', '.join(assigned)}"
        move = self.table.item_write(
            "Update",
            job.ref.pk,
            keys.META_SK,
            condition=THIS_RENEWAL,
            update=update + (" REMOVE renewed_partitions" if swept is None else ""),
            values={
                "from": job.status,
                "gen": job.gen,
                "until": job.rows_until,
                "due": job.renew_at,
                **values,
            },
        )
        moved = relisting(self.table, job, changes)
        if moved:
            return isinstance(await self.table.transact([move, *moved]), Written)
        return isinstance(await self.table.update(move, returning="NONE"), Written)

    async def renew(self, pk: str, sk: str, until: int) -> bool:
        """Let a row live until then; one that is gone stays gone, and that is False."""
        write = self.table.item_write(
            "Update",
            pk,
            sk,
            condition=LIVES_SHORTER,
            update="SET expires_at = :until",
            values={"until": until},
        )
        return isinstance(await self.table.update(write, returning="NONE"), Written)
