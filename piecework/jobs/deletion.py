"""Delete a job: objects, dead letters and rows go; a tombstone stays.

    ended -> DELETING      from then on every command answers that the job is deleted
    objects of the bucket, in all versions
    dead letters with their marks
    rows: by an operator all, by the retention those that have no time
    DELETING -> DELETED    the job's own row becomes the tombstone

DELETING is never left but for DELETED, so a process that has read it may delete. Each
step may be repeated, by the same command or by a reconciler. A worker that was frozen
before the job ended may write a row or an object later. So the job is swept a second
time, half a day after its deletion.

Rows of chunks have a time, at which DynamoDB deletes them free of charge. The retention
leaves these to it: no process reads them any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import NamedTuple

from piecework.cost import units
from piecework.domain import keys
from piecework.domain.job import Job
from piecework.domain.refs import ChunkRef
from piecework.domain.states import JobStatus
from piecework.jobs.fan_out import Progress, ProgressMark, batched, gather_limited
from piecework.runtime import Runtime
from piecework.store.dead_letters import DISCARDED, REDRIVEN, open_letter_key
from piecework.store.deletions import RETENTION_ACTOR, Deletions
from piecework.store.serialization import to_item
from piecework.store.table import REMOVALS_AT_ONCE, Item, Table

#: Write units a second of a sweep. A new table on demand takes 4,000.
UNITS_PER_S = 2_000
#: Partitions that a sweep deletes at once: each takes 1,000 units a second.
PARTITIONS = 8


async def delete_job(
    rt: Runtime,
    job: Job,
    progress: Progress = lambda *_: None,
    most: int | None = None,
) -> bool:
    """Delete the data of a DELETING job, and leave its tombstone.

    Return False if more than `most` rows and objects are left, or the job has changed:
    a later call continues.
    """
    if not await Sweep(rt, job, progress, most).run():
        return False
    done = await Deletions(rt.table, rt.clock).finish(job)
    rt.cost.forget(job.ref)
    return done


async def sweep_again(
    rt: Runtime, job: Job, most: int | None = None, *, at_once: bool = False
) -> bool:
    """Delete what a frozen worker wrote after the deletion; False: some may be left.

    `at_once`: also the rows that a deletion by the retention has left to DynamoDB.
    """
    swept = await Sweep(rt, job, most=most, at_once=at_once).run()
    rt.cost.forget(job.ref)
    return swept


class Removal(NamedTuple):
    """A row to delete, and the write units of that."""

    pk: str
    sk: str
    units: int


@dataclass(slots=True)
class Pace:
    """Keeps the deletions of a sweep below `UNITS_PER_S`."""

    _next: float = 0.0

    async def take(self, amount: int) -> None:
        """Wait until so many units may be written."""
        now = asyncio.get_running_loop().time()
        begins = max(now, self._next)
        self._next = begins + amount / UNITS_PER_S
        if begins > now:
            await asyncio.sleep(begins - now)


@dataclass(slots=True)
class Sweep:
    """One sweep over all that a job has stored.

    Attributes:
        most: Rows and objects that it deletes, about, at most; None: all.
        at_once: Whether it deletes rows that have a time, also for the retention.
        done: The rows and objects that it deleted.
    """

    rt: Runtime
    job: Job
    progress: Progress = lambda *_: None
    most: int | None = None
    at_once: bool = False
    done: int = 0
    _mark: ProgressMark = field(init=False)
    _pace: Pace = field(default_factory=Pace)
    _stopped: bool = False

    def __post_init__(self) -> None:
        """Report the progress of a long deletion, so that no reconciler joins it."""
        self._mark = ProgressMark(self.rt, self.job)

    @property
    def leaves_timed_rows(self) -> bool:
        """Whether it leaves the rows that have a time to DynamoDB."""
        by_retention = self.job.deletion.get("deleted_by") == RETENTION_ACTOR
        return by_retention and bool(self.job.rows_until) and not self.at_once

    async def run(self) -> bool:
        """Delete all but the job's own row; False: `most` is reached, or it changed."""
        rt, ref = self.rt, self.job.ref
        async for _ in rt.objects.remove_all(
            f"{keys.object_prefix(ref.tenant, ref.job)}/"
        ):
            await self._count(1)
            if self._stopped:
                return False
        await self._remove(rt.dead_letters, self._letters())
        if self.leaves_timed_rows:
            await self._remove(rt.table, self._untimed())
            await self._remove(rt.table, self._tallies(), counted=False)
        else:
            partitions = aiter_of(range(keys.partition_count(self.job.chunks)))
            await gather_limited(self._partition, batched(partitions, 1), PARTITIONS)
        return not self._stopped

    async def _partition(self, partitions: list[int]) -> None:
        if not self._stopped:
            await self._remove(self.rt.table, self._rows(partitions[0]))

    async def _letters(self) -> AsyncIterator[Removal]:
        """Yield each dead letter; an open one has a mark, too."""
        async for item in self.rt.dead_letters.query(self.job.ref.pk, any_version=True):
            yield Removal(item["pk"], item["sk"], units_of(item))
            name = keys.dead_letter_of(item["pk"], item["sk"])
            at, closed = item.get("dead_lettered_at"), {REDRIVEN, DISCARDED}
            # No check of the row: what an operator has damaged is deleted, too.
            if name and isinstance(at, str) and item.get("state") not in closed:
                mark = open_letter_key(ChunkRef(*name[:3]), name[3], at)
                yield Removal(*mark, 1)

    async def _rows(self, partition: int) -> AsyncIterator[Removal]:
        """Yield each row of a partition, without the job's own."""
        pk = keys.partition_pk(self.job.ref.tenant, self.job.ref.job, partition)
        async for item in self.rt.table.query(pk, any_version=True):
            if item["sk"] != keys.META_SK:
                yield Removal(pk, item["sk"], units_of(item))

    async def _untimed(self) -> AsyncIterator[Removal]:
        """Yield the few rows of the first partition that have no time."""
        ref = self.job.ref
        for prefix in keys.UNTIMED_PREFIXES:
            async for item in self.rt.table.query(ref.pk, prefix, any_version=True):
                yield Removal(ref.pk, item["sk"], units_of(item))

    async def _tallies(self) -> AsyncIterator[Removal]:
        """Yield the tallies of all partitions, without a read: their keys are known."""
        ref, chunks = self.job.ref, self.job.chunks
        for group in range(keys.partition_count(chunks)):
            pk = keys.partition_pk(ref.tenant, ref.job, group)
            yield Removal(pk, keys.TALLY_SK, 1)
        for block in range(keys.block_count(chunks)):
            pk = keys.block_pk(ref.tenant, ref.job, block)
            yield Removal(pk, keys.BLOCK_SK, 1)

    async def _remove(
        self, table: Table, removals: AsyncIterator[Removal], *, counted: bool = True
    ) -> None:
        async for some in batched(removals, REMOVALS_AT_ONCE):
            if self._stopped:
                return
            await self._pace.take(sum(each.units for each in some))
            await table.remove([(each.pk, each.sk) for each in some])
            if counted:
                await self._count(len(some))

    async def _count(self, number: int) -> None:
        self.done += number
        self.progress("deleted", self.done)
        begun = self.job.status is JobStatus.DELETING
        changed = begun and not await self._mark.write_if_due()
        if changed or (self.most is not None and self.done >= self.most):
            self._stopped = True


def units_of(item: Item) -> int:
    """Return the write units of a deletion of a row."""
    return units.write_units(units.item_size(to_item(item)))


async def aiter_of(numbers: range) -> AsyncIterator[int]:
    """Yield numbers."""
    for number in numbers:
        yield number
