"""Bring the record of a run of another machine into the tables of this deployment.

    reserve   the job's row takes its name; no process can go on with it
    copy      all other rows of the job; those that exist stay
    open      one write: the job runs, and is listed

Until the last step no list has the job, so no worker and no reconciler touches its
rows. A copy that dies half-way is repeated with the same token.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from piecework.domain import keys
from piecework.domain.job import Job
from piecework.domain.moments import iso
from piecework.domain.refs import JobRef
from piecework.domain.states import JobStatus
from piecework.store.jobs import active_mark, event_put
from piecework.store.table import INSERTS_AT_ONCE, ItemWrite, Table, Written

#: No job has the name.
IS_FREE = "attribute_not_exists(pk)"
#: The name is reserved for this push, and no operator has cancelled it since.
IS_RESERVED = "push_token = :token AND #status = :reserved"


@dataclass(frozen=True, slots=True)
class Pushes:
    """The jobs that are brought to one deployment.

    Attributes:
        clock: Returns the seconds since 1970.
    """

    table: Table
    dead_letters: Table
    clock: Callable[[], float]

    async def reserve(self, ref: JobRef, meta: Mapping[str, Any], token: str) -> bool:
        """Reserve the name of a job for a push; False: another job has it.

        The row is as of a submit that has no chunk yet. It names no manifest that a
        second submit could have. So that submit is refused, and changes nothing.
        """
        reserved = {**meta, "status": JobStatus.SUBMITTING, "manifest_sha256": ""}
        write = self._meta(ref, reserved, token, condition=IS_FREE)
        reply = await self.table.put(write)
        if isinstance(reply, Written):
            return True
        return (reply.item or {}).get("push_token") == token

    async def copy(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Copy rows of the first table; one that exists stays."""
        some = iter(rows)
        while chosen := list(islice(some, INSERTS_AT_ONCE)):
            await self.table.insert([row_of(self.table, row) for row in chosen])

    async def copy_letters(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Copy rows of the table of dead letters; one that exists stays."""
        for row in rows:
            await self.dead_letters.put(row_of(self.dead_letters, row, IS_FREE))

    async def open(
        self,
        ref: JobRef,
        meta: Mapping[str, Any],
        token: str,
        lists: Sequence[Mapping[str, Any]],
        facts: Mapping[str, Any],
    ) -> bool:
        """Move SUBMITTING -> RUNNING: all rows of a push are there; False: it moved.

        `lists`: the job's rows in the lists of jobs. `facts`: those of the event. The
        job has no `sent_at`. So a reconciler sends its chunks if this process dies.
        """
        now = self.clock()
        running = {**meta, "status": JobStatus.RUNNING, "progress_at": iso(now)}
        running.pop("sent_at", None)
        values = {"token": token, "reserved": JobStatus.SUBMITTING}
        reply = await self.table.transact(
            [
                self._meta(ref, running, token, condition=IS_RESERVED, values=values),
                active_mark(self.table, ref, "Put"),
                *(row_of(self.table, row) for row in lists),
                event_put(self.table, ref, "pushed", now, dict(facts)),
            ]
        )
        return isinstance(reply, Written)

    def _meta(
        self, ref: JobRef, item: Mapping[str, Any], token: str, **parts: Any
    ) -> ItemWrite:
        whole = {**item, "push_token": token}
        return self.table.item_write("Put", ref.pk, keys.META_SK, item=whole, **parts)


def row_of(table: Table, row: Mapping[str, Any], condition: str = "") -> ItemWrite:
    """Return the write of a row as it was."""
    return table.item_write(
        "Put", str(row["pk"]), str(row["sk"]), item=row, condition=condition
    )


def has_arrived(job: Job, token: str) -> bool:
    """Return whether a push has opened a job: it was interrupted after that."""
    return job.push_token == token and job.status is not JobStatus.SUBMITTING
