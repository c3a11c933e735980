"""The children of jobs: started by the end of a claim, and ended by their own end.

    start   the chunk waits, and the child is created: one transaction
    end     the child ends, and an entry among the waits of its parent says so: one
            transaction
    wake    the chunk is due, and the entry is gone: one transaction, by any process

The record of the child decides whether it has ended. A chunk begins to wait only for a
child that has not, so no end is missed: it is either read by the claim, or it leaves
its entry after the chunk waits.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from piecework.domain import keys
from piecework.domain.child import ChildRow, ChildStart
from piecework.domain.claim import Claim
from piecework.domain.job import Job
from piecework.domain.moments import iso
from piecework.domain.refs import ChunkRef, JobRef
from piecework.domain.states import ChunkStatus, JobStatus
from piecework.store.jobs import creation
from piecework.store.table import ItemWrite, Table, Written
from piecework.store.waits import entry, removal

ENDED = {
    "succeeded": JobStatus.SUCCEEDED,
    "partial": JobStatus.PARTIAL,
    "failed": JobStatus.FAILED,
    "cancelled": JobStatus.CANCELLED,
    "deleting": JobStatus.DELETING,
    "deleted": JobStatus.DELETED,
}
#: The child that the claim has read has not ended since: else nothing would wake it.
NOT_ENDED = (
    "attribute_exists(pk) AND NOT #status IN ("
    + ", ".join(f":{name}" for name in ENDED)
    + ")"
)
#: The chunk still waits for this child, and no cancel has come.
WAITS_FOR_CHILD = (
    "#status = :waiting AND child = :child"
    " AND attribute_not_exists(cancel_requested_at)"
)


def child_writes(
    table: Table, claim: Claim, child: ChildStart, now: float
) -> list[ItemWrite]:
    """Return the writes that start a child, for the transaction that begins the wait.

    Of a child that exists, it is only checked that it has not ended.
    """
    parent = claim.ref.of
    ref = JobRef(parent.tenant, child.job)
    if child.facts is None:
        check = table.item_write(
            "ConditionCheck", ref.pk, keys.META_SK, condition=NOT_ENDED, values=ENDED
        )
        return [check]
    row = {
        "job": child.job,
        "pipeline": child.pipeline,
        "chunk": claim.ref.chunk,
        "stage": child.stage,
        "rows": child.rows,
        "started_at": iso(now),
    }
    listed = table.item_write("Put", parent.pk, keys.child_sk(child.job), item=row)
    return [*creation(table, ref, dict(child.facts), now), listed]


def end_entry(table: Table, job: Job, now: float) -> list[ItemWrite]:
    """Return the entry that wakes the parent, for the transaction of a child's end."""
    if job.parent is None or job.parent_chunk is None:
        return []
    chunk = job.parent.chunk(job.parent_chunk)
    return [entry(table, chunk, 1, iso(now), child=job.ref.job)]


async def wake(
    table: Table, chunk: ChunkRef, gen: int, child: str, entered_at: str, now: float
) -> bool:
    """Make a chunk due whose child has ended; False: it does not wait for it any more.

    The entry of that end is replaced by one for the chunk's own message: if its sender
    dies, a reconciler finds the chunk.
    """
    at = iso(now)
    due = table.item_write(
        "Update",
        chunk.pk,
        chunk.sk,
        condition=WAITS_FOR_CHILD,
        update="SET due_at = :now, redispatch_at = :now"
        " REMOVE retry_at, blocked_on, child",
        values={"waiting": ChunkStatus.WAITING, "child": child, "now": at},
    )
    writes = [due, entry(table, chunk, gen, at)]
    if entered_at != at:
        writes.append(removal(table, chunk, entered_at))
    return isinstance(await table.transact(writes), Written)


async def has_children(table: Table, parent: JobRef) -> bool:
    """Return whether a job has started a child."""
    return bool(await table.first(parent.pk, 1, prefix=keys.CHILD_PREFIX))


async def children_of(table: Table, parent: JobRef) -> AsyncIterator[ChildRow]:
    """Yield the children that a job has started, by id."""
    found: Any = table.query(parent.pk, keys.CHILD_PREFIX, any_version=True)
    async for item in found:
        yield ChildRow(item)
