"""The index of a job's chunks that wait longer than SQS delays a message.

An entry is written in the transaction that begins or moves the wait. It is under the
time at which the wait ends, or a step of a question is due. So the chunks that are due
are found without a read of those that are not. The chunk's row decides. An entry that
the chunk does not name any more (`due_at`) is removed when it is due. The loss of an
entry delays a chunk until its group is read. An answer and a cancel leave the entry:
its removal would cost a write for each chunk.

A job is marked before its first such wait. No process asks the index of a job without
the mark.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from piecework.domain import keys
from piecework.domain.moments import iso, moment
from piecework.domain.question import WaitRow
from piecework.domain.refs import ChunkRef, JobRef
from piecework.domain.schema import SCHEMA, is_newer
from piecework.domain.states import ChunkStatus
from piecework.store.table import ItemWrite, Table, Written

#: Entries that one transaction takes out: each changes a chunk and deletes an entry,
#: and DynamoDB accepts 100 writes.
ENTRIES_AT_ONCE = 50
#: Jobs whose mark a process remembers to have written.
MOST_MARKED = 10_000

UNMARKED = "attribute_exists(pk) AND attribute_not_exists(has_waits)"
#: The chunk still waits for this entry, in a form that this code knows.
STILL_WAITS = "#status = :waiting AND gen = :gen AND due_at = :due AND v <= :schema"


def entry(
    table: Table, ref: ChunkRef, gen: int, due_at: str, **facts: Any
) -> ItemWrite:
    """Return the write of an entry, for a transaction that begins or moves the wait."""
    item = {"due_at": due_at, "chunk": ref.chunk, "gen": gen, **facts}
    return table.item_write(
        "Put", ref.of.pk, keys.wait_sk(due_at, ref.chunk), item=item
    )


def removal(table: Table, ref: ChunkRef, due_at: str) -> ItemWrite:
    """Return the removal of an entry; it succeeds without the entry, too."""
    return table.item_write("Delete", ref.of.pk, keys.wait_sk(due_at, ref.chunk))


@dataclass(slots=True)
class WaitIndex:
    """The chunks of a deployment that wait long."""

    table: Table
    clock: Callable[[], float]
    _marked: set[JobRef] = field(default_factory=set)

    async def mark(self, ref: JobRef) -> None:
        """Record that a job has an index, once for each process and job."""
        if ref in self._marked:
            return
        write = self.table.item_write(
            "Update",
            ref.pk,
            keys.META_SK,
            condition=UNMARKED,
            update="SET has_waits = :now",
            values={"now": iso(self.clock())},
        )
        await self.table.update(write, returning="NONE")
        if len(self._marked) >= MOST_MARKED:
            self._marked.clear()
        self._marked.add(ref)

    async def first_due(self, ref: JobRef, until: str) -> list[WaitRow]:
        """Return the first entries that are due until then: one small read."""
        prefix, last = keys.WAIT_PREFIX, keys.wait_end_sk(until)
        count = ENTRIES_AT_ONCE
        found = await self.table.first(ref.pk, count, prefix=prefix, last=last)
        return [WaitRow(item) for item in found if not is_newer(item)]

    async def open_questions(self, ref: JobRef) -> AsyncIterator[WaitRow]:
        """Yield the entries of a job's chunks that wait for an answer."""
        async for item in self.table.query(ref.pk, keys.WAIT_PREFIX, any_version=True):
            row = WaitRow(item)
            if row.question:
                yield row

    async def take_out(
        self, ref: JobRef, rows: Sequence[WaitRow], lost_after_s: float
    ) -> list[WaitRow]:
        """Move chunks out of the index, whose messages the caller then sends.

        A message is sent again `lost_after_s` after its chunk was due. Return the
        entries whose chunks still waited; the others are removed.
        """
        woken, left = list[WaitRow](), list(rows)
        while left:
            # An answer leaves the entry of its question, so a chunk may have two. One
            # transaction cannot write a row twice.
            first = {row.chunk: row for row in reversed(left)}
            woken += await self._take_out_one_each(ref, [*first.values()], lost_after_s)
            left = [row for row in left if row is not first[row.chunk]]
        return woken

    async def _take_out_one_each(
        self, ref: JobRef, rows: list[WaitRow], lost_after_s: float
    ) -> list[WaitRow]:
        """Move chunks out of the index that have one entry each among the rows."""
        todo, stale = rows, list[WaitRow]()
        while todo:
            writes = [
                write
                for row in todo
                for write in self._taking_out(ref, row, lost_after_s)
            ]
            reply = await self.table.transact(writes)
            if isinstance(reply, Written):
                break
            refused = {position // 2 for position in reply.refused}
            stale += [
                row
                for i, row in enumerate(todo)
                if i in refused and not is_newer(reply.refused[2 * i] or {})
            ]
            todo = [row for i, row in enumerate(todo) if i not in refused]
        await self.drop(ref, stale)
        return todo

    def _taking_out(
        self, ref: JobRef, row: WaitRow, lost_after_s: float
    ) -> tuple[ItemWrite, ItemWrite]:
        chunk = ref.chunk(row.chunk)
        again = max(moment(row.due_at), self.clock()) + lost_after_s
        update = self.table.item_write(
            "Update",
            chunk.pk,
            chunk.sk,
            condition=STILL_WAITS,
            update="SET redispatch_at = :again REMOVE due_at",
            values={
                "waiting": ChunkStatus.WAITING,
                "gen": row.gen,
                "due": row.due_at,
                "schema": SCHEMA,
                "again": iso(again),
            },
        )
        return update, removal(self.table, chunk, row.due_at)

    async def drop(self, ref: JobRef, rows: Sequence[WaitRow]) -> None:
        """Remove entries that their chunks do not name any more."""
        if rows:
            await self.table.transact(
                [removal(self.table, ref.chunk(row.chunk), row.due_at) for row in rows]
            )
