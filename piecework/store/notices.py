"""What a pipeline's notify hook is to be told: an outbox beside the job.

A notice is written together with what it tells of, so that neither is without the
other. Whoever delivers it takes it for a while first; should it die, the next does.

    PENDING   to be delivered at `due_at`, or in delivery until then
    DELIVERED      the hook returned
    ABANDONED the hook failed each time
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from piecework import keys
from piecework.model import Job, JobRef, JobStatus, iso
from piecework.store.births import active_mark
from piecework.store.table import Action, Item, Table, Written

PENDING, DELIVERED, ABANDONED = "PENDING", "DELIVERED", "ABANDONED"
IS_PENDING = "#state = :pending"
#: The claim is the time at which it ends: who comes later finds another one there.
OURS = f"{IS_PENDING} AND due_at = :ours AND attempts = :attempts"
DUE = f"{IS_PENDING} AND due_at <= :now"
UNSENT = f"{IS_PENDING} AND redispatch_at <= :now"
#: As it was looked at; a job that was taken up since is among the active again.
STILL_ENDED = "#status = :seen AND gen = :gen"


def notification_put(
    table: Table, job: Job, event: str, now: float, facts: dict[str, Any]
) -> list[Action]:
    """Return the write of a notice; none where the pipeline wants to hear nothing."""
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
        table.action("Put", job.ref.pk, keys.notification_sk(job.gen, event), item=item)
    ]


@dataclass(slots=True)
class Notifications:
    """The notices of one deployment's jobs."""

    table: Table
    clock: Callable[[], float]

    async def of(self, ref: JobRef) -> list[Item]:
        """Return a job's notices in their order."""
        return [row async for row in self.table.query(ref.pk, keys.NOTIFICATION_PREFIX)]

    async def take(self, row: Item, seconds: float) -> Item | None:
        """Take a notice that is due for a while, for one try; None: not now."""
        now = self.clock()
        action = self.table.action(
            "Update",
            row["pk"],
            row["sk"],
            condition=DUE,
            update="SET due_at = :until ADD attempts :one",
            values={
                "pending": PENDING,
                "now": iso(now),
                "until": iso(now + seconds),
                "one": 1,
            },
        )
        reply = await self.table.update(action)
        return reply.item if isinstance(reply, Written) else None

    async def told(self, row: Item) -> bool:
        """PENDING -> DELIVERED: whoever says so tells the truth."""
        values = {"delivered": DELIVERED, "now": iso(self.clock()), "pending": PENDING}
        return await self._write(
            row, IS_PENDING, "#state = :delivered, delivered_at = :now", values
        )

    async def put_off(self, row: Item, seconds: float, error: str) -> bool:
        """Try again later."""
        values = {"due": iso(self.clock() + seconds), "error": error, **ours(row)}
        return await self._write(
            row, OURS, "due_at = :due, last_error = :error", values
        )

    async def give_up(self, row: Item, error: str) -> bool:
        """PENDING -> ABANDONED: it was tried often enough."""
        values = {"abandoned": ABANDONED, "error": error, **ours(row)}
        assignments = "#state = :abandoned, last_error = :error"
        return await self._write(row, OURS, assignments, values)

    async def mark_redispatched(self, row: Item, seconds: float) -> bool:
        """Note that a message is sent for a notice; the next one goes later."""
        now = self.clock()
        values = {"again": iso(now + seconds), "now": iso(now), "pending": PENDING}
        return await self._write(row, UNSENT, "redispatch_at = :again", values)

    async def close(self, job: Job) -> bool:
        """Let go of an ended job of which everybody was told."""
        check = self.table.action(
            "ConditionCheck",
            job.ref.pk,
            keys.META_SK,
            condition=STILL_ENDED,
            values={"seen": job.status, "gen": job.gen},
        )
        mark = active_mark(self.table, job.ref, "Delete")
        return isinstance(await self.table.transact([check, mark]), Written)

    async def _write(
        self, row: Item, condition: str, assignments: str, values: dict[str, Any]
    ) -> bool:
        action = self.table.action(
            "Update",
            row["pk"],
            row["sk"],
            condition=condition,
            update=f"SET {assignments}",
            values=values,
        )
        return isinstance(await self.table.update(action, returning="NONE"), Written)


def ours(row: Item) -> dict[str, Any]:
    """Return the values that `OURS` compares."""
    return {"pending": PENDING, "ours": row["due_at"], "attempts": row["attempts"]}
