"""The transitions of a job, each one conditional write.

SUBMITTING -> RUNNING -> FINALIZING -> SUCCEEDED | PARTIAL | FAILED
RUNNING -> PAUSED -> RUNNING
SUBMITTING | RUNNING | PAUSED | REOPENING -> CANCELLING -> CANCELLED
SUCCEEDED | PARTIAL | FAILED | CANCELLED -> REOPENING -> RUNNING

`piecework.store.deletions` has the transitions of a job's deletion.

A transition compares status and generation, so a process that read an earlier state
changes nothing.

All transitions are in one file, so that a reader can compare their conditions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from piecework.domain import keys
from piecework.domain.job import DEADLINE_CODE, Job
from piecework.domain.moments import iso
from piecework.domain.pause import Pause, PauseCode
from piecework.domain.records import read_int
from piecework.domain.refs import ChunkRef, JobRef
from piecework.domain.retention import DAY_S
from piecework.domain.states import JobStatus
from piecework.domain.webhook import WebhookEvent, event_id
from piecework.store.backlogs import closing
from piecework.store.children import end_entry
from piecework.store.deletions import expiry_mark, expiry_removal
from piecework.store.jobs import active_mark, event_put, new_chunk
from piecework.store.notifications import notification_put
from piecework.store.outbox import outbox_mark, tell
from piecework.store.table import ItemWrite, Refused, Table, Written

#: Why no further chunk of a job starts.
TOLERANCE_CODE = "job.tolerance.exceeded"
#: What a counter of dead letters is, in an error.
FAILURES = "a counter of dead letters"
#: The attributes of a pause.
PAUSE = "pause_code, pause_message, paused_by, paused_at, pause_until, pause_unit"
#: Attributes that a new generation does not inherit.
OF_A_GENERATION = (
    "failed_chunks, finalizing_at, stopped_at, stopped_code, delete_after, kept_at,"
    f" rest_held, {PAUSE}"
)
IN_STATE = "#status = :from AND gen = :gen"
#: A resume ends the pause that its caller has read, not a later one.
THIS_PAUSE = f"{IN_STATE} AND paused_at = :paused_at AND pause_code = :pause_code"
#: The rest starts once.
REST_IS_HELD = f"{IN_STATE} AND attribute_exists(rest_held)"
#: The messages of an earlier resume are not those of a later one.
THIS_RESUME = f"{IN_STATE} AND resumed_at = :resumed_at"
NEVER_RESUMED = f"{IN_STATE} AND attribute_not_exists(resumed_at)"
EXPIRED = f"{IN_STATE} AND deadline_at <= :now"
#: The attributes of a job that its deadline cancelled.
BY_DEADLINE = {
    "cancelled_by": "deadline",
    "cancel_code": DEADLINE_CODE,
    "cancel_compensates": True,
}


@dataclass(slots=True)
class JobTransitions:
    """The transitions of one deployment's jobs."""

    table: Table
    clock: Callable[[], float]
    #: Days from the end of a job to its deletion; 0: it stays.
    retention_days: int = 0

    async def open(self, ref: JobRef, gen: int) -> bool:
        """Move SUBMITTING -> RUNNING after every chunk of the manifest is written."""
        facts = {"opened_at": iso(self.clock())}
        return await self._move(
            ref, gen, JobStatus.SUBMITTING, JobStatus.RUNNING, facts
        )

    async def sent(
        self, ref: JobRef, gen: int, status: JobStatus = JobStatus.RUNNING
    ) -> bool:
        """Record that every chunk's message was sent, also those of a PAUSED job."""
        facts = {"sent_at": iso(self.clock())}
        return await self._move(ref, gen, status, status, facts)

    async def stop_starting(self, job: Job, failed: int) -> bool:
        """Record that no further chunk of a RUNNING job starts.

        More chunks, `failed`, failed than it tolerates. Chunks that have started go on.
        """
        now = self.clock()
        facts = {
            "stopped_at": iso(now),
            "stopped_code": TOLERANCE_CODE,
            "failed_chunks": failed,
        }
        move = self._moving(
            job.ref,
            job.gen,
            JobStatus.RUNNING,
            JobStatus.RUNNING,
            facts,
            condition=f"{IN_STATE} AND attribute_not_exists(stopped_at)",
        )
        told = {"code": TOLERANCE_CODE, "failed": failed, "gen": job.gen}
        return await self._move_and_tell(move, job, "stopped", now, told)

    def counting_failure(self, ref: ChunkRef, gen: int) -> ItemWrite:
        """Return the write that counts a dead letter, for the chunk's transaction.

        A chunk dies once in a generation, so the count is exact. A job has several
        counters, because transactions on one item conflict.
        """
        return self.table.item_write(
            "Update",
            ref.of.pk,
            keys.failed_sk(gen, ref.chunk),
            update="ADD failed_chunks :one",
            values={"one": 1},
        )

    async def failed_chunks(self, ref: JobRef, gen: int) -> int:
        """Return how many chunks became dead letters in a generation."""
        counters = self.table.query(ref.pk, keys.failed_prefix(gen))
        return sum([read_int(c, "failed_chunks", FAILURES) async for c in counters])

    async def finalize(self, job: Job, join: dict[str, Any]) -> bool:
        """Move RUNNING | CANCELLING -> FINALIZING and create the join with it.

        It moves from CANCELLING only after a deadline that stopped no chunk.
        """
        ref = job.ref.chunk(keys.JOIN_CHUNK)
        move = self._moving(
            job.ref,
            job.gen,
            job.status,
            JobStatus.FINALIZING,
            {"finalizing_at": iso(self.clock())},
        )
        put = self.table.item_write(
            "Put",
            ref.pk,
            ref.sk,
            condition="attribute_not_exists(pk) OR gen < :gen",
            values={"gen": job.gen},
            item=new_chunk(ref, job.gen, {**join, "expires_at": job.expires_at}),
        )
        return isinstance(await self.table.transact([move, put]), Written)

    async def ending(
        self, job: Job, status: JobStatus, facts: dict[str, Any]
    ) -> list[ItemWrite]:
        """Return the writes of the job's end, for the transaction of the join."""
        return await self._ending(job, JobStatus.FINALIZING, status, facts)

    async def _ending(
        self, job: Job, source: JobStatus, target: JobStatus, facts: dict[str, Any]
    ) -> list[ItemWrite]:
        now, days = self.clock(), self.retention_days
        delete_after = iso(now + days * DAY_S) if days else ""
        ended = {"finished_at": iso(now), **facts}
        if delete_after:
            ended["delete_after"] = delete_after
        times = [at for at in (delete_after, job.renew_at) if at]
        listed_at = min(times, default="")
        told = {"status": target, "gen": job.gen, **facts.get("outcomes", {})}
        deliveries = await tell(self.table, ended_event(job, target, facts, now), now)
        if job.has_ladder and not deliveries:
            # No reconciler reads an ended job. From its end on, the mark of the outbox
            # leads reconcilers to the rungs of its dead letters. Deliveries write that
            # mark, too.
            deliveries = [outbox_mark(self.table, job.ref.tenant)]
        return [
            self._moving(job.ref, job.gen, source, target, ended),
            event_put(self.table, job.ref, "finished", now, told),
            *closing(self.table, job),
            *([expiry_mark(self.table, job.ref, listed_at)] if listed_at else []),
            *self._after_end(job, now, {"status": target, **facts}),
            *end_entry(self.table, job, now),
            *deliveries,
        ]

    def _after_end(
        self, job: Job, now: float, facts: dict[str, Any]
    ) -> list[ItemWrite]:
        """Return the write of the notification, or of the active mark's removal."""
        if job.has_notify_hook:
            return notification_put(self.table, job, "ended", now, facts)
        return [active_mark(self.table, job.ref, "Delete")]

    async def reopen(
        self, job: Job, facts: dict[str, Any], also: Sequence[ItemWrite] = ()
    ) -> int | None:
        """Move ended -> REOPENING in the next generation; None: the job has changed.

        The job cannot end until its chunks are reopened, one by one. A deadline that
        has passed is removed unless `facts` has a new one. `also` is written in the
        same transaction, such as the closing of the join's dead letter.
        """
        now = self.clock()
        facts = {**facts, "reopened_at": iso(now)}
        passed = job.deadline is not None and job.deadline <= now
        move = self._moving(
            job.ref,
            job.gen,
            job.status,
            JobStatus.REOPENING,
            facts,
            next_gen=job.gen + 1,
            remove=OF_A_GENERATION
            + (", deadline_at" if passed and "deadline_at" not in facts else ""),
        )
        reply = await self.table.transact(
            [
                move,
                active_mark(self.table, job.ref, "Put"),
                *expiry_removal(self.table, job),
                *also,
            ]
        )
        return job.gen + 1 if isinstance(reply, Written) else None

    async def reopened(self, job: Job, facts: dict[str, Any] | None = None) -> bool:
        """Move REOPENING -> RUNNING, or -> SUBMITTING if the submit was interrupted.

        `facts`: what a repeated command changes, such as the deadline.
        """
        opened = bool(job.opened_at)
        target = JobStatus.RUNNING if opened else JobStatus.SUBMITTING
        source = JobStatus.REOPENING
        return await self._move(job.ref, job.gen, source, target, facts or {})

    async def pause(
        self, job: Job, pause: Pause, also: Sequence[ItemWrite] = ()
    ) -> bool:
        """Move RUNNING -> PAUSED: no call starts until the job is resumed.

        The event is in the same transaction, and so is `also`. It may check that a
        spent budget is still the one that the worker has read. A refused pause changes
        nothing: the job has changed, or another process has paused it. A late copy of
        the request is refused after a resume, because the pause names the resume that
        it follows.
        """
        now, resumed = self.clock(), job.resumed_at
        facts = {
            "pause_code": pause.code,
            "pause_message": pause.message,
            "paused_by": pause.actor,
            "paused_at": iso(now),
            **({"pause_until": pause.until} if pause.until else {}),
            **({"pause_unit": pause.unit} if pause.unit else {}),
        }
        move = self._moving(
            job.ref,
            job.gen,
            JobStatus.RUNNING,
            JobStatus.PAUSED,
            facts,
            condition=THIS_RESUME if resumed else NEVER_RESUMED,
        )
        if resumed:
            move = replace(move, values={**move.values, "resumed_at": resumed})
        told = {"actor": pause.actor, "code": pause.code, "reason": pause.message}
        event = event_put(self.table, job.ref, "paused", now, told)
        deliveries = await tell(self.table, paused_event(job, pause, now), now)
        writes = [move, event, *also, *deliveries]
        return isinstance(await self.table.transact(writes), Written)

    async def resume(self, job: Job, actor: str, reason: str) -> bool:
        """Move PAUSED -> RUNNING; the caller then sends the messages of open chunks.

        After a sample the rest starts. A refused resume changes nothing: the pause that
        was read has ended.
        """
        now, pause = self.clock(), job.pause
        if pause is None:
            return False
        move = self._moving(
            job.ref,
            job.gen,
            JobStatus.PAUSED,
            JobStatus.RUNNING,
            {"resumed_at": iso(now)},
            condition=THIS_PAUSE,
            remove=PAUSE + (", rest_held" if pause.code == PauseCode.SAMPLE else ""),
        )
        read = {"paused_at": pause.at, "pause_code": pause.code}
        move = replace(move, values={**move.values, **read})
        told = {"actor": actor, "code": pause.code, "reason": reason}
        return await self._move_and_tell(move, job, "resumed", now, told)

    async def release_rest(self, job: Job, actor: str, reason: str) -> bool:
        """Start the rest of a RUNNING job that has a sample, as a resume does.

        The caller then sends the messages of open chunks.
        """
        now = self.clock()
        move = self._moving(
            job.ref,
            job.gen,
            JobStatus.RUNNING,
            JobStatus.RUNNING,
            {"resumed_at": iso(now)},
            condition=REST_IS_HELD,
            remove="rest_held",
        )
        told = {"actor": actor, "code": PauseCode.SAMPLE, "reason": reason}
        return await self._move_and_tell(move, job, "resumed", now, told)

    async def redispatched(self, job: Job) -> None:
        """Record that every open chunk's message was sent after this resume."""
        facts = {"redispatched_at": iso(self.clock())}
        move = self._moving(
            job.ref,
            job.gen,
            JobStatus.RUNNING,
            JobStatus.RUNNING,
            facts,
            condition=THIS_RESUME,
        )
        values = {**move.values, "resumed_at": job.resumed_at}
        await self.table.update(replace(move, values=values), returning="NONE")

    async def accept_changes(self, ref: JobRef, facts: dict[str, Any]) -> bool:
        """Record that newer code goes on with the chunks of a job, and who says so."""
        assignments = ", ".join(f"{name} = :{name}" for name in facts)
        write = self.table.item_write(
            "Update",
            ref.pk,
            keys.META_SK,
            condition="attribute_exists(pk)",
            update=f"SET {assignments}",
            values=facts,
        )
        return isinstance(await self.table.update(write, returning="NONE"), Written)

    async def cancel(self, job: Job, facts: dict[str, Any]) -> bool:
        """Move SUBMITTING | RUNNING | PAUSED | REOPENING -> CANCELLING."""
        facts = {**facts, "cancelled_at": iso(self.clock())}
        to = JobStatus.CANCELLING
        return await self._move(job.ref, job.gen, job.status, to, facts)

    async def expire(self, job: Job) -> bool:
        """Move SUBMITTING | RUNNING | PAUSED | REOPENING -> CANCELLING when it is late.

        Event and notification are in the same transaction, so each exists once.
        """
        now = self.clock()
        facts = {**BY_DEADLINE, "cancelled_at": iso(now)}
        facts["cancel_reason"] = f"the deadline was {job.deadline_at}"
        move = self._moving(
            job.ref,
            job.gen,
            job.status,
            JobStatus.CANCELLING,
            facts,
            condition=EXPIRED,
        )
        told = {"code": facts["cancel_code"], "gen": job.gen}
        writes = [
            replace(move, values={**move.values, "now": iso(now)}),
            event_put(self.table, job.ref, "deadline", now, told),
            *notification_put(self.table, job, "deadline", now, facts),
        ]
        return isinstance(await self.table.transact(writes), Written)

    async def cancelled(self, job: Job, facts: dict[str, Any]) -> bool:
        """Move CANCELLING -> CANCELLED after every chunk has ended."""
        ended = JobStatus.CANCELLED
        writes = await self._ending(job, JobStatus.CANCELLING, ended, facts)
        return isinstance(await self.table.transact(writes), Written)

    async def _move_and_tell(
        self, move: ItemWrite, job: Job, event: str, now: float, told: dict[str, Any]
    ) -> bool:
        """Write a transition and its event in one transaction."""
        put = event_put(self.table, job.ref, event, now, told)
        return isinstance(await self.table.transact([move, put]), Written)

    async def _move(
        self,
        ref: JobRef,
        gen: int,
        source: JobStatus,
        target: JobStatus,
        facts: dict[str, Any],
    ) -> bool:
        write = self._moving(ref, gen, source, target, facts)
        reply = await self.table.update(write, returning="NONE")
        if isinstance(reply, Refused):
            item = reply.item or {}
            return item.get("status") == target and item.get("gen") == gen
        return True

    def _moving(
        self,
        ref: JobRef,
        gen: int,
        source: JobStatus,
        target: JobStatus,
        facts: dict[str, Any],
        next_gen: int | None = None,
        condition: str = IN_STATE,
        remove: str = "",
    ) -> ItemWrite:
        assignments = "".join(f", {name} = :{name}" for name in facts)
        if next_gen is not None:
            assignments += ", gen = :next_gen"
            facts = {**facts, "next_gen": next_gen}
        return self.table.item_write(
            "Update",
            ref.pk,
            keys.META_SK,
            condition=condition,
            update=f"SET #status = :to{assignments}"
            + (f" REMOVE {remove}" if remove else ""),
            values={"from": source, "to": target, "gen": gen, **facts},
        )


# ── what webhooks are told of a job ───────────────────────────────────────────


def ended_event(
    job: Job, status: JobStatus, facts: dict[str, Any], now: float
) -> WebhookEvent:
    """Return the event of the end of a job."""
    outcomes = facts.get("outcomes", {})
    counts = ", ".join(f"{count} {state}" for state, count in sorted(outcomes.items()))
    return WebhookEvent(
        kind="job.ended",
        id=event_id(job.ref.tenant, job.ref.job, job.gen, "ended"),
        at=iso(now),
        tenant=job.ref.tenant,
        pipeline=job.pipeline,
        job=job.ref.job,
        text=f"Job {job.ref.job} ended {status}: {counts or 'no chunk'}.",
        command=f"piecework jobs show {job.ref.job}",
        data={
            "status": str(status),
            "gen": job.gen,
            "chunks": job.chunks,
            "outcomes": dict(outcomes),
        },
    )


def paused_event(job: Job, pause: Pause, now: float) -> WebhookEvent:
    """Return the event of the pause of a job."""
    why = f": {pause.message}" if pause.message else ""
    spent = pause.code == PauseCode.BUDGET
    return WebhookEvent(
        kind="job.out_of_budget" if spent else "job.paused",
        id=event_id(job.ref.tenant, job.ref.job, job.gen, "paused", iso(now)),
        at=iso(now),
        tenant=job.ref.tenant,
        pipeline=job.pipeline,
        job=job.ref.job,
        text=f"Job {job.ref.job} was paused by {pause.actor} ({pause.code}){why}",
        command=f"piecework jobs show {job.ref.job}",
        data={"code": str(pause.code), "reason": pause.message, "actor": pause.actor},
    )
