"""The backlogs: the chunks of large jobs that have no message, one row for each job.

A worker with free slots moves the number of the next chunk forward. It starts the
chunks in between without a message. So two workers draw different chunks. One write
takes the place of three requests to SQS for each chunk.

A worker that dies between the write and the claim loses its draw. The reconciler sees
chunks that were drawn long ago and never claimed, and sends their messages.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

from piecework.domain import keys
from piecework.domain.job import Job
from piecework.domain.priority import Priority
from piecework.domain.refs import JobRef
from piecework.domain.schema import SCHEMA, is_newer
from piecework.store.table import ItemWrite, Table, Written

#: The backlog belongs to an earlier generation of the job, or does not exist.
NEW_OR_EARLIER = "attribute_not_exists(pk) OR gen < :gen"
#: The backlog is of this generation, and chunks are left.
LEFT = "gen = :gen AND next_chunk < :chunks AND v <= :v"


@dataclass(frozen=True, slots=True)
class Backlog:
    """The chunks of a job from `next` on, which no worker has drawn yet."""

    ref: JobRef
    queue: str
    gen: int
    next: int
    chunks: int
    priority: Priority

    @property
    def left(self) -> int:
        """The chunks that are left."""
        return max(0, self.chunks - self.next)

    @property
    def sk(self) -> str:
        """The sort key of its row."""
        return keys.backlog_sk(self.queue, self.ref.tenant, self.ref.job)


@dataclass(frozen=True, slots=True)
class Backlogs:
    """The backlogs of one deployment."""

    table: Table

    async def open(self, job: Job, start: int) -> None:
        """Create the backlog of a job, unless this generation has or had one."""
        write = self.table.item_write(
            "Put",
            keys.ACTIVE_PK,
            keys.backlog_sk(job.queue, job.ref.tenant, job.ref.job),
            condition=NEW_OR_EARLIER,
            values={"gen": job.gen},
            item={
                "tenant": job.ref.tenant,
                "job": job.ref.job,
                "gen": job.gen,
                "next_chunk": start,
                "chunks": job.chunks,
                "priority": job.priority,
            },
        )
        await self.table.put(write)

    async def draw(self, backlog: Backlog, most: int) -> tuple[range, Backlog | None]:
        """Draw up to `most` chunks; return them, and the backlog if chunks are left.

        A lost reply loses the draw, until the reconciler sends the messages.
        """
        write = self.table.item_write(
            "Update",
            keys.ACTIVE_PK,
            backlog.sk,
            condition=LEFT,
            update="ADD next_chunk :most",
            values={
                "gen": backlog.gen,
                "chunks": backlog.chunks,
                "v": SCHEMA,
                "most": most,
            },
        )
        reply = await self.table.update(write)
        after = read_backlog(reply.item or {}, backlog.queue)
        if not isinstance(reply, Written) or after is None:
            return range(0), None
        drawn = range(after.next - most, min(after.next, after.chunks))
        return drawn, after if after.left else None

    async def of_queue(self, queue: str) -> AsyncIterator[Backlog]:
        """Yield the backlogs of a queue that have chunks left."""
        rows = self.table.query(
            keys.ACTIVE_PK, keys.backlog_sk(queue, "", ""), any_version=True
        )
        async for row in rows:
            backlog = None if is_newer(row) else read_backlog(row, queue)
            if backlog is not None and backlog.left:
                yield backlog

    async def of_job(self, job: Job) -> Backlog | None:
        """Return the backlog of a job in its generation, or None."""
        sk = keys.backlog_sk(job.queue, job.ref.tenant, job.ref.job)
        row = await self.table.get(keys.ACTIVE_PK, sk)
        found = read_backlog(row or {}, job.queue)
        return found if found is not None and found.gen == job.gen else None

    async def set_priority(self, job: Job, priority: Priority) -> bool:
        """Change the priority of a job and its backlog; False: it has no backlog."""
        writes = [
            self.table.item_write(
                "Update",
                pk,
                sk,
                condition="gen = :gen",
                update="SET priority = :priority",
                values={"gen": job.gen, "priority": priority},
            )
            for pk, sk in (
                (job.ref.pk, keys.META_SK),
                (
                    keys.ACTIVE_PK,
                    keys.backlog_sk(job.queue, job.ref.tenant, job.ref.job),
                ),
            )
        ]
        return isinstance(await self.table.transact(writes), Written)

    async def set_next_priority(self, job: Job, priority: Priority) -> bool:
        """Change the priority of the jobs that a job without a backlog will start."""
        write = self.table.item_write(
            "Update",
            job.ref.pk,
            keys.META_SK,
            condition="gen = :gen",
            update="SET priority = :priority",
            values={"gen": job.gen, "priority": priority},
        )
        return isinstance(await self.table.update(write, returning="NONE"), Written)


def closing(table: Table, job: Job) -> list[ItemWrite]:
    """Return the write that removes the backlog of a job that ends."""
    if job.backlog_start is None:
        return []
    sk = keys.backlog_sk(job.queue, job.ref.tenant, job.ref.job)
    return [table.item_write("Delete", keys.ACTIVE_PK, sk)]


def read_backlog(row: Mapping[str, Any], queue: str) -> Backlog | None:
    """Return the backlog of a row; None: the row is malformed."""
    tenant: Any = row.get("tenant")
    job: Any = row.get("job")
    numbers: list[Any] = [row.get(name) for name in ("gen", "next_chunk", "chunks")]
    if any(type(number) is not int for number in numbers):
        return None
    if not all(isinstance(name, str) and keys.is_name(name) for name in (tenant, job)):
        return None
    try:
        priority = Priority(row.get("priority", ""))
    except ValueError:
        priority = Priority.NORMAL
    gen, start, chunks = numbers
    return Backlog(JobRef(tenant, job), queue, gen, start, chunks, priority)
