"""The notifications of a pipeline's notify hook: an outbox beside the job.

A notification is written in the same transaction as the event that it reports. A worker
claims it for some seconds before it calls the hook. If that worker dies, another one
delivers the notification.

    PENDING    to be delivered at `due_at`, or in delivery until then
    DELIVERED  the hook returned
    ABANDONED  the hook failed each time
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from piecework.domain import keys
from piecework.domain.job import Job
from piecework.domain.moments import iso
from piecework.domain.notification import NotificationRow
from piecework.domain.refs import JobRef
from piecework.domain.states import JobStatus
from piecework.store.jobs import active_mark
from piecework.store.table import ItemWrite, Table, Written

PENDING, DELIVERED, ABANDONED = "PENDING", "DELIVERED", "ABANDONED"
IS_PENDING = "#state = :pending"
#: A claim is identified by its end, `due_at`: each claim sets another one.
CLAIMED = f"{IS_PENDING} AND due_at = :ours AND attempts = :attempts"
DUE = f"{IS_PENDING} AND due_at <= :now"
UNSENT = f"{IS_PENDING} AND redispatch_at <= :now"
#: The job is as it was read; a job that was reopened since is active again.
STILL_ENDED = "#status = :seen AND gen = :gen"


def notification_put(
    table: Table, job: Job, event: str, now: float, facts: dict[str, Any]
) -> list[ItemWrite]:
    """Return the write of a notification; none if the pipeline has no notify hook."""
    if not job.has_notify_hook:
        return []
    known = {**job.item, **facts}
    cancelled = event == "deadline" or facts.get("status") == JobStatus.CANCELLED
    by = ("cancelled_by", "cancel_reason") if cancelled else ()
    item = {
        "event": event,
        "gen": job.gen,
        "job_status": str(facts.get("status", JobStatus.CANCELLING)),
        "counts": dict(facts.get("outcomes", {})),
        **{name: known.get(name, "") for name in by},
        "at": iso(now),
        "state": PENDING,
        "due_at": iso(now),
        "redispatch_at": iso(now),
        "attempts": 0,
    }
    return [
        table.item_write(
            "Put", job.ref.pk, keys.notification_sk(job.gen, event), item=item
        )
    ]


@dataclass(slots=True)
class Notifications:
    """The notifications of one deployment's jobs."""

    table: Table
    clock: Callable[[], float]

    async def of(self, ref: JobRef) -> list[NotificationRow]:
        """Return a job's notifications in key order."""
        found = self.table.query(ref.pk, keys.NOTIFICATION_PREFIX)
        return [NotificationRow(item) async for item in found]

    async def take(
        self, row: NotificationRow, seconds: float
    ) -> NotificationRow | None:
        """Claim a due notification for `seconds`; None: it is not due."""
        now = self.clock()
        write = self.table.item_write(
            "Update",
            *row.key,
            condition=DUE,
            update="SET due_at = :until ADD attempts :one",
            values={
                "pending": PENDING,
                "now": iso(now),
                "until": iso(now + seconds),
                "one": 1,
            },
        )
        reply = await self.table.update(write)
        return NotificationRow(reply.item) if isinstance(reply, Written) else None

    async def mark_delivered(self, row: NotificationRow) -> bool:
        """Move PENDING -> DELIVERED; unfenced, because the hook has returned."""
        values = {"delivered": DELIVERED, "now": iso(self.clock()), "pending": PENDING}
        return await self._write(
            row, IS_PENDING, "#state = :delivered, delivered_at = :now", values
        )

    async def schedule_retry(
        self, row: NotificationRow, seconds: float, error: str
    ) -> bool:
        """Schedule the next delivery attempt after `seconds`."""
        values = {
            "due": iso(self.clock() + seconds),
            "error": error,
            **claim_values(row),
        }
        return await self._write(
            row, CLAIMED, "due_at = :due, last_error = :error", values
        )

    async def abandon(self, row: NotificationRow, error: str) -> bool:
        """Move PENDING -> ABANDONED after the last delivery attempt."""
        values = {"abandoned": ABANDONED, "error": error, **claim_values(row)}
        assignments = "#state = :abandoned, last_error = :error"
        return await self._write(row, CLAIMED, assignments, values)

    async def mark_redispatched(self, row: NotificationRow, seconds: float) -> bool:
        """Record that a message was sent; the next one comes after `seconds`."""
        now = self.clock()
        values = {"again": iso(now + seconds), "now": iso(now), "pending": PENDING}
        return await self._write(row, UNSENT, "redispatch_at = :again", values)

    async def close(self, job: Job) -> bool:
        """Remove an ended job from the active jobs after its last notification."""
        check = self.table.item_write(
            "ConditionCheck",
            job.ref.pk,
            keys.META_SK,
            condition=STILL_ENDED,
            values={"seen": job.status, "gen": job.gen},
        )
        mark = active_mark(self.table, job.ref, "Delete")
        return isinstance(await self.table.transact([check, mark]), Written)

    async def _write(
        self,
        row: NotificationRow,
        condition: str,
        assignments: str,
        values: dict[str, Any],
    ) -> bool:
        write = self.table.item_write(
            "Update",
            *row.key,
            condition=condition,
            update=f"SET {assignments}",
            values=values,
        )
        return isinstance(await self.table.update(write, returning="NONE"), Written)


def claim_values(row: NotificationRow) -> dict[str, Any]:
    """Return the values that `CLAIMED` compares."""
    return {"pending": PENDING, "ours": row.due_at, "attempts": row.attempts}
