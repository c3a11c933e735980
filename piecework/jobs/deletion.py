"""Delete a job: objects, dead letters and rows go; a tombstone stays.

    ended -> DELETING      from then on every command answers that the job is deleted
    objects of the bucket, in all versions
    dead letters with their marks, then the rows of all partitions
    DELETING -> DELETED    the job's own row becomes the tombstone

Each step may be repeated, by the same command or by a reconciler. A worker that was
frozen before the job ended may write a row or an object later. So the job is swept a
second time, half a day after its deletion.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from piecework.domain import keys
from piecework.domain.job import Job
from piecework.domain.refs import ChunkRef
from piecework.domain.states import JobStatus
from piecework.jobs.fan_out import Progress, ProgressMark
from piecework.runtime import Runtime
from piecework.store.dead_letters import DISCARDED, REDRIVEN, open_letter_key
from piecework.store.deletions import ROWS_AT_ONCE, Deletions
from piecework.store.table import ItemWrite


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
    sweep = Sweep(rt, job, progress, most)
    if not await sweep.run():
        return False
    done = await Deletions(rt.table, rt.clock).finish(job)
    rt.cost.forget(job.ref)
    return done


async def sweep_again(rt: Runtime, job: Job, most: int | None = None) -> bool:
    """Delete what a frozen worker wrote after the deletion; False: some may be left."""
    swept = await Sweep(rt, job, most=most).run()
    rt.cost.forget(job.ref)
    return swept


@dataclass(slots=True)
class Sweep:
    """One sweep over all that a job has stored.

    Attributes:
        most: Rows and objects that it deletes at most; None: all.
        done: The rows and objects that it deleted.
    """

    rt: Runtime
    job: Job
    progress: Progress = lambda *_: None
    most: int | None = None
    done: int = 0
    _mark: ProgressMark = field(init=False)

    def __post_init__(self) -> None:
        """Report the progress of a long deletion, so that no reconciler joins it."""
        self._mark = ProgressMark(self.rt, self.job)

    async def run(self) -> bool:
        """Delete all but the job's own row; False: `most` is reached, or it changed."""
        rt, ref = self.rt, self.job.ref
        async for _ in rt.objects.remove_all(
            f"{keys.object_prefix(ref.tenant, ref.job)}/"
        ):
            if not await self._count(1):
                return False
        if not await self._remove(self._letters()):
            return False
        for partition in range(keys.partition_count(self.job.chunks)):
            pk = keys.partition_pk(ref.tenant, ref.job, partition)
            if not await self._remove(self._rows(pk)):
                return False
        return True

    async def _letters(self) -> AsyncIterator[list[ItemWrite]]:
        """Yield the removals of each dead letter; an open one has a mark, too."""
        table = self.rt.dead_letters
        async for item in table.query(self.job.ref.pk, any_version=True):
            removals = [table.item_write("Delete", item["pk"], item["sk"])]
            name = keys.dead_letter_of(item["pk"], item["sk"])
            at, closed = item.get("dead_lettered_at"), {REDRIVEN, DISCARDED}
            # No check of the row: what an operator has damaged is deleted, too.
            if name and isinstance(at, str) and item.get("state") not in closed:
                mark = open_letter_key(ChunkRef(*name[:3]), name[3], at)
                removals.append(table.item_write("Delete", *mark))
            yield removals

    async def _rows(self, pk: str) -> AsyncIterator[list[ItemWrite]]:
        """Yield the removal of each row of a partition, without the job's own."""
        table = self.rt.table
        async for item in table.query(pk, any_version=True):
            if item["sk"] != keys.META_SK:
                yield [table.item_write("Delete", pk, item["sk"])]

    async def _remove(self, removals: AsyncIterator[list[ItemWrite]]) -> bool:
        batch: list[ItemWrite] = []
        async for some in removals:
            if len(batch) + len(some) > ROWS_AT_ONCE:
                if not await self._write(batch):
                    return False
                batch = []
            batch += some
        return not batch or await self._write(batch)

    async def _write(self, batch: list[ItemWrite]) -> bool:
        deletions = Deletions(self.rt.table, self.rt.clock)
        removed = await deletions.remove(self.job.ref, batch)
        return removed and await self._count(len(batch))

    async def _count(self, number: int) -> bool:
        self.done += number
        self.progress("deleted", self.done)
        if self.job.status is JobStatus.DELETING:
            await self._mark.write_if_due()
        return self.most is None or self.done < self.most
