"""A job's own item: its birth, its states, and where to find it.

SUBMITTING -> RUNNING -> FINALIZING -> SUCCEEDED | PARTIAL | FAILED
SUBMITTING | RUNNING | RESUMING -> CANCELLING -> CANCELLED
PARTIAL | FAILED | CANCELLED -> RESUMING -> RUNNING
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from piecework import keys
from piecework.model import SCHEMA, ChunkRef, ChunkStatus, Job, JobRef, JobStatus, iso
from piecework.store.table import Action, Item, Refused, Table, Written

NEW = "attribute_not_exists(pk)"
IN_STATE = "#status = :from AND gen = :gen"
#: DynamoDB takes 100 actions in a transaction; one of them looks at the job.
CHUNKS_AT_ONCE = 99


@dataclass(slots=True)
class Jobs:
    """The jobs of one deployment."""

    table: Table
    clock: Callable[[], float]

    async def create(self, ref: JobRef, facts: dict[str, Any]) -> Job | None:
        """(absent) -> SUBMITTING. Return None, or the job that has the name already."""
        now = iso(self.clock())
        meta = {
            "status": JobStatus.SUBMITTING,
            "gen": 1,
            "v": SCHEMA,
            "created_at": now,
        }
        actions = [
            self._put(ref.pk, keys.META_SK, {**meta, "job": ref.job, **facts}),
            self._active(ref, "Put"),
            self.table.action(
                "Put",
                keys.jobs_pk(ref.tenant),
                f"{now}#{ref.job}",
                item={"job": ref.job, "pipeline": facts["pipeline"]},
            ),
        ]
        reply = await self.table.transact(actions)
        if isinstance(reply, Written):
            return None
        return await self.read(ref)

    async def read(self, ref: JobRef) -> Job | None:
        """Return a job as it stands."""
        item = await self.table.get(ref.pk, keys.META_SK)
        return None if item is None else Job.read(ref, item)

    async def add_chunks(
        self, ref: JobRef, gen: int, chunks: Sequence[tuple[int, dict[str, Any]]]
    ) -> bool:
        """(absent) -> PENDING for up to 99 chunks; False when the job has moved on.

        Those that exist already are left as they are: a submit may run twice.
        """
        todo = list(chunks)
        while todo:
            check = self._check_submitting(ref)
            puts = [self._new_chunk(ref, gen, number, facts) for number, facts in todo]
            reply = await self.table.transact([check, *puts])
            if isinstance(reply, Written):
                return True
            if 0 in reply.refused:
                return False
            todo = [c for i, c in enumerate(todo, start=1) if i not in reply.refused]
        return True

    def _check_submitting(self, ref: JobRef) -> Action:
        return self.table.action(
            "ConditionCheck",
            ref.pk,
            keys.META_SK,
            condition="#status = :from",
            values={"from": JobStatus.SUBMITTING},
        )

    def _new_chunk(
        self, ref: JobRef, gen: int, number: int, facts: dict[str, Any]
    ) -> Action:
        chunk = ref.chunk(number)
        return self._put(chunk.pk, chunk.sk, new_chunk(chunk, gen, facts))

    async def count_chunks(self, ref: JobRef, chunks: int) -> int:
        """Count a job's chunks, strongly consistent."""
        total = 0
        for group in range(keys.groups_in(chunks)):
            pk = keys.group_pk(ref.tenant, ref.job, group)
            total += await self.table.count(pk, keys.CHUNK_PREFIX)
        return total

    async def open(self, ref: JobRef, gen: int) -> bool:
        """Move SUBMITTING -> RUNNING: every chunk of the manifest is written."""
        facts = {"opened_at": iso(self.clock())}
        return await self._move(
            ref, gen, JobStatus.SUBMITTING, JobStatus.RUNNING, facts
        )

    async def sent(self, ref: JobRef, gen: int) -> bool:
        """Note that every chunk's message was sent."""
        facts = {"sent_at": iso(self.clock())}
        return await self._move(ref, gen, JobStatus.RUNNING, JobStatus.RUNNING, facts)

    async def note(self, ref: JobRef, code: str, said: str) -> None:
        """Note why a job does not get on, for those who look at it."""
        action = self.table.action(
            "Update",
            ref.pk,
            keys.META_SK,
            condition="attribute_exists(pk)",
            update="SET notice = :said, notice_code = :code, noticed_at = :now",
            values={"said": said, "code": code, "now": iso(self.clock())},
        )
        await self.table.update(action, returning="NONE")

    async def finalize(self, job: Job, join: dict[str, Any]) -> bool:
        """Move RUNNING -> FINALIZING, together with the chunk that is the join."""
        ref = job.ref.chunk(keys.JOIN_CHUNK)
        move = self._moving(
            job.ref,
            job.gen,
            JobStatus.RUNNING,
            JobStatus.FINALIZING,
            {"finalizing_at": iso(self.clock())},
        )
        put = self.table.action(
            "Put",
            ref.pk,
            ref.sk,
            condition="attribute_not_exists(pk) OR gen < :gen",
            values={"gen": job.gen},
            item=new_chunk(ref, job.gen, join),
        )
        return isinstance(await self.table.transact([move, put]), Written)

    def ending(
        self, job: Job, status: JobStatus, facts: dict[str, Any]
    ) -> list[Action]:
        """Return FINALIZING -> ended; it goes with the end of the join."""
        facts = {"finished_at": iso(self.clock()), **facts}
        move = self._moving(job.ref, job.gen, JobStatus.FINALIZING, status, facts)
        return [move, self._active(job.ref, "Delete")]

    async def reopen(self, job: Job, facts: dict[str, Any]) -> int | None:
        """Move ended -> RESUMING in the next generation; None: it moved on.

        Nobody may finish the job until its chunks are reopened, one by one.
        """
        facts = {**facts, "reopened_at": iso(self.clock())}
        move = self._moving(
            job.ref,
            job.gen,
            job.status,
            JobStatus.RESUMING,
            facts,
            next_gen=job.gen + 1,
        )
        reply = await self.table.transact([move, self._active(job.ref, "Put")])
        return job.gen + 1 if isinstance(reply, Written) else None

    async def resume(self, job: Job) -> bool:
        """RESUMING -> RUNNING, or back to SUBMITTING where that was cut off."""
        opened = "opened_at" in job.item
        target = JobStatus.RUNNING if opened else JobStatus.SUBMITTING
        return await self._move(job.ref, job.gen, JobStatus.RESUMING, target, {})

    async def cancel(self, job: Job, facts: dict[str, Any]) -> bool:
        """Move SUBMITTING | RUNNING | RESUMING -> CANCELLING."""
        facts = {**facts, "cancelled_at": iso(self.clock())}
        return await self._move(
            job.ref, job.gen, job.status, JobStatus.CANCELLING, facts
        )

    async def cancelled(self, job: Job, facts: dict[str, Any]) -> bool:
        """Move CANCELLING -> CANCELLED: every chunk has ended."""
        facts = {"finished_at": iso(self.clock()), **facts}
        move = self._moving(
            job.ref, job.gen, JobStatus.CANCELLING, JobStatus.CANCELLED, facts
        )
        reply = await self.table.transact([move, self._active(job.ref, "Delete")])
        return isinstance(reply, Written)

    async def record(self, ref: JobRef, event: str, facts: dict[str, Any]) -> None:
        """Write an event of the job, for `jobs events` and for the audit."""
        now = iso(self.clock())
        token = f"{self.table.rng.getrandbits(32):08x}"
        item = {"event": event, "at": now, **facts}
        sk = f"{keys.EVENT_PREFIX}{now}#{event}#{token}"
        await self.table.put(self._put(ref.pk, sk, item))

    async def events(self, ref: JobRef) -> list[Item]:
        """Return the events of a job in their order."""
        return [item async for item in self.table.query(ref.pk, keys.EVENT_PREFIX)]

    async def listed(self, tenant: str) -> AsyncIterator[JobRef]:
        """Yield a tenant's jobs, the newest first."""
        async for item in self.table.query(keys.jobs_pk(tenant), backwards=True):
            yield JobRef(tenant, item["job"])

    async def active(self) -> AsyncIterator[JobRef]:
        """Yield every job that has not ended."""
        async for item in self.table.query(keys.ACTIVE_PK):
            yield JobRef(item["tenant"], item["job"])

    async def _move(
        self,
        ref: JobRef,
        gen: int,
        source: JobStatus,
        target: JobStatus,
        facts: dict[str, Any],
    ) -> bool:
        action = self._moving(ref, gen, source, target, facts)
        reply = await self.table.update(action, returning="NONE")
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
    ) -> Action:
        if next_gen is not None:
            facts = {**facts, "next_gen": next_gen}
        assignments = "".join(
            f", {'gen' if name == 'next_gen' else name} = :{name}" for name in facts
        )
        return self.table.action(
            "Update",
            ref.pk,
            keys.META_SK,
            condition=IN_STATE,
            update=f"SET #status = :to{assignments}",
            values={"from": source, "to": target, "gen": gen, **facts},
        )

    def _active(self, ref: JobRef, kind: str) -> Action:
        item = {"tenant": ref.tenant, "job": ref.job} if kind == "Put" else None
        return self.table.action(
            kind, keys.ACTIVE_PK, keys.active_sk(ref.tenant, ref.job), item=item
        )

    def _put(self, pk: str, sk: str, item: dict[str, Any]) -> Action:
        return self.table.action("Put", pk, sk, condition=NEW, item=item)


def new_chunk(ref: ChunkRef, gen: int, facts: dict[str, Any]) -> dict[str, Any]:
    """Return the item of a chunk that nobody has touched."""
    return {
        "status": ChunkStatus.PENDING,
        "gen": gen,
        "v": SCHEMA,
        "job": ref.job,
        "chunk": ref.chunk,
        "fence": 0,
        "attempts": 0,
        **facts,
    }
