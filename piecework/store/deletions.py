"""The deletion of a job, and the index of the jobs that expire.

SUCCEEDED | PARTIAL | FAILED | CANCELLED -> DELETING -> DELETED

The mark of the deletion is written first, and no transition leaves it but the last one.
So any process may continue a deletion after a kill. The job's own row stays as a
tombstone: its id is never used again.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

from piecework.domain import keys
from piecework.domain.job import Job
from piecework.domain.moments import iso
from piecework.domain.refs import JobRef
from piecework.domain.states import JobStatus
from piecework.store.fleet_events import fleet_event
from piecework.store.jobs import active_mark, event_put
from piecework.store.table import ItemWrite, Table, Written

#: Seconds from a deletion to its second sweep. A worker that was frozen may still write
#: the rest of its claim, which lasts 11 hours at most.
SECOND_SWEEP_S = 12 * 3600.0
#: The actor of a deletion by the retention.
RETENTION_ACTOR = "retention"

THIS_END = "#status = :from AND gen = :gen"
#: The expiry is still the one that the reconciler has read.
THIS_EXPIRY = f"{THIS_END} AND delete_after = :was"
#: What a tombstone keeps of the job's row; nothing of it comes from a payload.
KEPT_FACTS = (
    "job",
    "gen",
    "pipeline",
    "chunks",
    "submitted_by",
    "created_at",
    "finished_at",
    "outcomes",
    "certificate_sha256",
    "rows_until",
    "deleted_by",
    "delete_reason",
    "delete_requested_at",
)


@dataclass(frozen=True, slots=True)
class Expiry:
    """A job of the index: it expires at `at` unless its row has another time."""

    at: str
    ref: JobRef


@dataclass(slots=True)
class Deletions:
    """The deletions of a deployment's jobs."""

    table: Table
    clock: Callable[[], float]

    async def begin(self, job: Job, actor: str, reason: str) -> bool:
        """Move SUCCEEDED | PARTIAL | FAILED | CANCELLED -> DELETING.

        The job is listed as active, so a reconciler finds a deletion that stopped.
        False: the job has changed.
        """
        facts = {
            "deleted_by": actor,
            "delete_reason": reason,
            "delete_requested_at": iso(self.clock()),
        }
        assigned = "".join(f", {name} = :{name}" for name in facts)
        mark = self.table.item_write(
            "Update",
            job.ref.pk,
            keys.META_SK,
            condition=THIS_END,
            update=f"SET #status = :to{assigned}",
            values={
                "from": job.status,
                "gen": job.gen,
                "to": JobStatus.DELETING,
                **facts,
            },
        )
        told = {"job": job.ref.job, "actor": actor, "reason": reason}
        event = fleet_event(
            self.table, job.ref.tenant, "job deleted", self.clock(), told
        )
        reply = await self.table.transact(
            [mark, active_mark(self.table, job.ref, "Put"), event]
        )
        return isinstance(reply, Written)

    async def finish(self, job: Job) -> bool:
        """Move DELETING -> DELETED: only the tombstone stays.

        The tombstone is in the index until its second sweep.
        """
        now = self.clock()
        again = iso(now + SECOND_SWEEP_S)
        facts = {**job.pick(KEPT_FACTS), "deleted_at": iso(now), "delete_after": again}
        stone = self.table.item_write(
            "Put",
            job.ref.pk,
            keys.META_SK,
            condition="#status = :deleting AND gen = :gen",
            values={"deleting": JobStatus.DELETING, "gen": job.gen},
            item={**facts, "status": JobStatus.DELETED},
        )
        writes = [
            stone,
            active_mark(self.table, job.ref, "Delete"),
            expiry_mark(self.table, job.ref, again),
            *(expiry_removal(self.table, job) if job.listed_at != again else []),
        ]
        return isinstance(await self.table.transact(writes), Written)

    # ── the index of the jobs that expire ─────────────────────────────────────

    async def due(self, most: int) -> AsyncIterator[Expiry]:
        """Yield jobs whose time has come, the oldest first: one small read."""
        now = iso(self.clock())
        for item in await self.table.first(keys.EXPIRY_PK, most):
            found = keys.job_of_expiry_sk(item["sk"])
            if found is None or found[0] > now:
                continue
            at, tenant, job = found
            yield Expiry(at, JobRef(tenant, job))

    async def postpone(self, job: Job, until: float, letters: int) -> bool:
        """Move the expiry of an ended job; record once that dead letters keep it.

        `letters`: its open dead letters; 0: the job only expires later.
        """
        now, at = self.clock(), iso(until)
        facts: dict[str, Any] = {"delete_after": at}
        events = []
        if letters and not job.is_kept:
            facts["kept_at"] = iso(now)
            told = {"open_dead_letters": letters, "was_due_at": job.delete_after}
            events = [event_put(self.table, job.ref, "kept", now, told)]
        move = self.table.item_write(
            "Update",
            job.ref.pk,
            keys.META_SK,
            condition=THIS_EXPIRY,
            update="SET " + ", ".join(f"{name} = :{name}" for name in facts),
            values={
                "from": job.status,
                "gen": job.gen,
                "was": job.delete_after,
                **facts,
            },
        )
        writes = [move, *relisting(self.table, job, {"delete_after": at}), *events]
        return isinstance(await self.table.transact(writes), Written)

    async def stay(self, job: Job) -> bool:
        """Take the time of its deletion from an ended job: jobs stay now."""
        move = self.table.item_write(
            "Update",
            job.ref.pk,
            keys.META_SK,
            condition=THIS_EXPIRY,
            update="REMOVE delete_after",
            values={"from": job.status, "gen": job.gen, "was": job.delete_after},
        )
        writes = [move, *relisting(self.table, job, {"delete_after": ""})]
        return isinstance(await self.table.transact(writes), Written)

    async def relist(self, job: Job, expiry: Expiry) -> None:
        """Move an entry of the index to the time that its job has now."""
        at = job.listed_at
        mark = [expiry_mark(self.table, job.ref, at)] if at else []
        await self.table.transact([*mark, _unlisting(self.table, expiry)])

    async def unlist(self, expiry: Expiry) -> None:
        """Remove an entry of the index that its job does not name any more."""
        await self.table.delete(_unlisting(self.table, expiry))


def expiry_mark(table: Table, ref: JobRef, at: str) -> ItemWrite:
    """Return the write that lists a job by the time at which it expires."""
    sk = keys.expiry_sk(at, ref.tenant, ref.job)
    item = {"tenant": ref.tenant, "job": ref.job}
    return table.item_write("Put", keys.EXPIRY_PK, sk, item=item)


def relisting(table: Table, job: Job, changes: dict[str, str]) -> list[ItemWrite]:
    """Return the writes that move an ended job in the index, for its transaction.

    DynamoDB refuses two writes on one item, so an entry that stays is left alone.
    """
    times = {"delete_after": job.delete_after, "renew_at": job.renew_at, **changes}
    at = min([time for time in times.values() if time], default="")
    if at == job.listed_at or not job.status.ended:
        return []
    mark = [expiry_mark(table, job.ref, at)] if at else []
    return [*mark, *expiry_removal(table, job)]


def expiry_removal(table: Table, job: Job) -> list[ItemWrite]:
    """Return the write that takes a job from the index, if it is listed."""
    if not job.listed_at:
        return []
    return [_unlisting(table, Expiry(job.listed_at, job.ref))]


def _unlisting(table: Table, expiry: Expiry) -> ItemWrite:
    sk = keys.expiry_sk(expiry.at, expiry.ref.tenant, expiry.ref.job)
    return table.item_write("Delete", keys.EXPIRY_PK, sk)
