"""The items of a job: its creation, its chunks, its events and the lists of jobs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from piecework.domain import keys
from piecework.domain.batch import CollectorRow
from piecework.domain.job import Job
from piecework.domain.moments import iso
from piecework.domain.refs import ChunkRef, JobRef
from piecework.domain.rows import EventRow
from piecework.domain.schema import is_newer
from piecework.domain.states import ChunkStatus, JobStatus
from piecework.store.table import Item, ItemWrite, Table, Written

NEW = "attribute_not_exists(pk)"
#: The job exists, and its deletion has not begun.
IS_KEPT = "attribute_exists(pk) AND #status <> :deleting AND #status <> :deleted"
#: A change of the pipeline is noted once, and only so many of them.
NOT_NOTED = (
    "(attribute_not_exists(code_changes) OR (NOT contains(code_changes, :text) AND "
    "size(code_changes) < :most))"
)
MOST_CHANGES = 20
#: Groups that are counted at once.
COUNTED_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class ActiveMarks:
    """What the rows beside the active jobs say. A reconciler reads them with the jobs.

    Of most, only keys are used, because keys cannot be edited in place.

    Attributes:
        outboxes: The tenants whose webhooks have pending deliveries.
        watched: The tenants that are told of states that last.
        paused: The tenant and the name of each paused pipeline.
        collectors: The rows of the collectors, by their tenants and models.
    """

    outboxes: set[str] = field(default_factory=set)
    watched: set[str] = field(default_factory=set)
    paused: set[tuple[str, str]] = field(default_factory=set)
    collectors: dict[tuple[str, str], CollectorRow] = field(default_factory=dict)

    def note(self, row: Item) -> None:
        """Add what a row says."""
        for prefix, found in (
            (keys.OUTBOX_PREFIX, self.outboxes),
            (keys.WATCH_PREFIX, self.watched),
        ):
            tenant = keys.tenant_of_mark(prefix, row["sk"])
            if tenant is not None:
                found.add(tenant)
        place = keys.collected_by(row["sk"])
        if place is not None and not is_newer(row):
            self.collectors[place] = CollectorRow(row)
        pipeline = keys.pipeline_of_sk(row["sk"])
        if pipeline is not None:
            self.paused.add(pipeline)


@dataclass(slots=True)
class Jobs:
    """The jobs of one deployment."""

    table: Table
    clock: Callable[[], float]

    async def create(self, ref: JobRef, facts: dict[str, Any]) -> Job | None:
        """Create a job as SUBMITTING; return None, or the existing job of that name."""
        reply = await self.table.transact(
            creation(self.table, ref, facts, self.clock())
        )
        if isinstance(reply, Written):
            return None
        return await self.read(ref)

    async def read(self, ref: JobRef) -> Job | None:
        """Return the job as stored, or None."""
        item = await self.table.get(ref.pk, keys.META_SK)
        return None if item is None else Job.read(ref, item)

    async def read_many(
        self, refs: Sequence[JobRef]
    ) -> tuple[dict[JobRef, Job], list[JobRef]]:
        """Return jobs by their names, and those that only a newer version can read.

        A hundred are one request; one that does not exist is left out.
        """
        places = {(ref.pk, keys.META_SK): ref for ref in refs}
        items = await self.table.get_many(places, any_version=True)
        found = {places[place]: item for place, item in items.items()}
        newer = [ref for ref in refs if ref in found and is_newer(found[ref])]
        known = [ref for ref in refs if ref in found and ref not in newer]
        return {ref: Job.read(ref, found[ref]) for ref in known}, newer

    async def queue_of(self, ref: JobRef) -> str:
        """Return the queue of a job, also of a newer version; empty: the default one.

        For processes that have not read the job.
        """
        item = await self.table.get(ref.pk, keys.META_SK, any_version=True)
        return str((item or {}).get("queue", ""))

    async def add_chunks(
        self, ref: JobRef, gen: int, chunks: Sequence[tuple[int, dict[str, Any]]]
    ) -> None:
        """Create up to 25 chunks as PENDING.

        Chunks that exist already stay as they are, because a submit may run twice. No
        row of the job is checked: all submitters would meet there. Instead, a cancel
        creates the missing chunks before it ends them, so a late request creates none.
        """
        items = [self._new_chunk(ref, gen, number, facts) for number, facts in chunks]
        await self.table.insert(items)

    def _new_chunk(
        self, ref: JobRef, gen: int, number: int, facts: dict[str, Any]
    ) -> ItemWrite:
        chunk = ref.chunk(number)
        return self._put(chunk.pk, chunk.sk, new_chunk(chunk, gen, facts))

    async def count_chunks(
        self,
        ref: JobRef,
        chunks: int,
        report: Callable[[int], Awaitable[None]] | None = None,
    ) -> int:
        """Count a job's chunks, strongly consistent; report the number so far."""
        total = 0
        groups = keys.partition_count(chunks)
        for first in range(0, groups, COUNTED_AT_ONCE):
            some = range(first, min(first + COUNTED_AT_ONCE, groups))
            pks = [keys.partition_pk(ref.tenant, ref.job, group) for group in some]
            counts = [self.table.count(pk, keys.CHUNK_PREFIX) for pk in pks]
            total += sum(await asyncio.gather(*counts))
            if report is not None:
                await report(total)
        return total

    async def touch(self, job: Job) -> bool:
        """Record that a process works on the job; False: its state has changed."""
        write = self.table.item_write(
            "Update",
            job.ref.pk,
            keys.META_SK,
            condition="gen = :gen AND #status = :status",
            update="SET progress_at = :now",
            values={"gen": job.gen, "status": job.status, "now": iso(self.clock())},
        )
        return isinstance(await self.table.update(write, returning="NONE"), Written)

    async def note(
        self, ref: JobRef, code: str, message: str, until: float | None = None
    ) -> None:
        """Record why the job makes no progress, and until when, for the operator."""
        write = self.table.item_write(
            "Update",
            ref.pk,
            keys.META_SK,
            condition="attribute_exists(pk)",
            update="SET status_reason = :message, status_reason_code = :code,"
            " status_reason_at = :now,"
            " status_reason_until = :until",
            values={
                "message": message,
                "code": code,
                "now": iso(self.clock()),
                "until": "" if until is None else iso(until),
            },
        )
        await self.table.update(write, returning="NONE")

    async def note_change(self, ref: JobRef, text: str) -> bool:
        """Record, once, what has changed in the pipeline of a job; False: it was.

        The event is in the same transaction. A job keeps the first changes only.
        """
        write = self.table.item_write(
            "Update",
            ref.pk,
            keys.META_SK,
            condition=f"{IS_KEPT} AND {NOT_NOTED}",
            update="SET code_changes = list_append(if_not_exists(code_changes, :none),"
            " :texts)",
            values={
                "deleting": JobStatus.DELETING,
                "deleted": JobStatus.DELETED,
                "text": text,
                "texts": [text],
                "none": [],
                "most": MOST_CHANGES,
            },
        )
        put = event_put(self.table, ref, "code changed", self.clock(), {"change": text})
        return isinstance(await self.table.transact([write, put]), Written)

    async def unpin(self, job: Job) -> bool:
        """Let workers of any code version run a job; False: its pin has changed."""
        write = self.table.item_write(
            "Update",
            job.ref.pk,
            keys.META_SK,
            condition=f"{IS_KEPT} AND pinned_to = :seen",
            update="REMOVE pinned_to",
            values={
                "deleting": JobStatus.DELETING,
                "deleted": JobStatus.DELETED,
                "seen": job.pinned_to,
            },
        )
        return isinstance(await self.table.update(write, returning="NONE"), Written)

    async def record(self, ref: JobRef, event: str, facts: dict[str, Any]) -> None:
        """Write an event of the job, for `jobs events` and for the audit.

        A request that arrives late leaves no row of a job whose deletion has begun.
        """
        kept = self.table.item_write(
            "ConditionCheck",
            ref.pk,
            keys.META_SK,
            condition=IS_KEPT,
            values={"deleting": JobStatus.DELETING, "deleted": JobStatus.DELETED},
        )
        put = event_put(self.table, ref, event, self.clock(), facts)
        await self.table.transact([kept, put])

    async def events(self, ref: JobRef) -> list[EventRow]:
        """Return the events of a job by time."""
        found = self.table.query(ref.pk, keys.EVENT_PREFIX, any_version=True)
        return [EventRow(item) async for item in found]

    async def listed(
        self, tenant: str, pipeline: str = "*", since: str = ""
    ) -> AsyncIterator[JobRef]:
        """Yield a tenant's jobs, the newest first.

        Args:
            tenant: Whose jobs.
            pipeline: Only jobs of this pipeline; `review*` for all that begin so.
            since: Only jobs that were created at this ISO time or later.
        """
        async for item in self.table.query(
            keys.jobs_pk(tenant), backwards=True, any_version=True
        ):
            if item["sk"] < since:
                return
            job = keys.job_of_jobs_sk(item["sk"])
            if job is not None and fnmatchcase(str(item.get("pipeline")), pipeline):
                yield JobRef(tenant, job)

    async def active(self, marks: ActiveMarks | None = None) -> AsyncIterator[JobRef]:
        """Yield every active job; note the other rows beside them in `marks`."""
        async for item in self.table.query(keys.ACTIVE_PK, any_version=True):
            job = keys.job_of_active_sk(item["sk"])
            if job is not None:
                yield JobRef(*job)
            if marks is not None:
                marks.note(item)

    def _put(self, pk: str, sk: str, item: dict[str, Any]) -> ItemWrite:
        return self.table.item_write("Put", pk, sk, condition=NEW, item=item)


# ── items that are created together with others ───────────────────────────────


def creation(
    table: Table, ref: JobRef, facts: dict[str, Any], now: float
) -> list[ItemWrite]:
    """Return the writes that create a job as SUBMITTING, for one transaction."""
    at = iso(now)
    meta = {"status": JobStatus.SUBMITTING, "gen": 1, "created_at": at}
    row = {**meta, "job": ref.job, **facts}
    return [
        table.item_write("Put", ref.pk, keys.META_SK, condition=NEW, item=row),
        active_mark(table, ref, "Put"),
        table.item_write(
            "Put",
            keys.jobs_pk(ref.tenant),
            keys.jobs_sk(at, ref.job),
            item={"job": ref.job, "pipeline": facts["pipeline"]},
        ),
    ]


def new_chunk(ref: ChunkRef, gen: int, facts: dict[str, Any]) -> dict[str, Any]:
    """Return the item of a chunk that was never claimed."""
    return {
        "status": ChunkStatus.PENDING,
        "gen": gen,
        "job": ref.job,
        "chunk": ref.chunk,
        "fence": 0,
        "attempts": 0,
        **facts,
    }


def active_mark(table: Table, ref: JobRef, kind: str) -> ItemWrite:
    """Return the `Put` or `Delete` of the mark that lists an active job."""
    item = {"tenant": ref.tenant, "job": ref.job} if kind == "Put" else None
    return table.item_write(
        kind, keys.ACTIVE_PK, keys.active_sk(ref.tenant, ref.job), item=item
    )


def event_put(
    table: Table, ref: JobRef, event: str, now: float, facts: dict[str, Any]
) -> ItemWrite:
    """Return the write of an event of a job, with its time and its actor."""
    at, token = iso(now), f"{table.rng.getrandbits(32):08x}"
    return table.item_write(
        "Put",
        ref.pk,
        keys.event_sk(at, event, token),
        condition="attribute_not_exists(pk)",
        item={"event": event, "at": at, **facts},
    )
