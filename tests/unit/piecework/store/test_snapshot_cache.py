"""A snapshot of ended chunks is kept, so that no process reads them again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from random import Random
from typing import Any

import pytest

from piecework.domain import keys
from piecework.domain.job import Job
from piecework.domain.refs import JobRef
from piecework.domain.states import ChunkStatus
from piecework.store.completion import MOST_ROWS, Counted, JobSnapshot, SnapshotCache
from piecework.store.table import Item, Table

REF = JobRef("acme", "job")
OTHER = JobRef("acme", "other")


class Chunks(Table):
    """A table of chunks, by number; keeps which were read."""

    def __init__(self, *statuses: str) -> None:
        super().__init__(None, "table", Random(1))  # type: ignore[arg-type]
        self.statuses = list(statuses)
        self.read: list[int] = []

    def item(self, number: int) -> Item:
        self.read.append(number)
        facts = {"status": self.statuses[number], "gen": 1, "fence": 1}
        return {"sk": keys.chunk_sk(number), **facts}

    async def query(self, pk: str, prefix: str = "", **_: Any) -> AsyncIterator[Item]:
        for number in range(len(self.statuses)):
            yield self.item(number)

    async def get(self, pk: str, sk: str) -> Item | None:
        return self.item(keys.chunk_number(sk))


def job(ref: JobRef = REF, gen: int = 1, chunks: int = 3) -> Job:
    item = {"status": "RUNNING", "gen": gen, "chunks": chunks, "pipeline": "p"}
    return Job.read(ref, item)


async def test_a_snapshot_counts_all_chunks_when_all_have_ended() -> None:
    table = Chunks("SUCCEEDED", "DEAD", "CANCELLED")
    snapshot = await SnapshotCache().ended(table, job())
    assert snapshot is not None
    assert ["SUCCEEDED", "DEAD", "CANCELLED"] == [str(r.status) for r in snapshot.rows]


@pytest.mark.parametrize("status", ["PENDING", "RUNNING", "WAITING"])
async def test_a_read_ends_at_the_first_open_chunk_and_the_next_one_starts_there(
    status: str,
) -> None:
    table, cache = Chunks("SUCCEEDED", status, "SUCCEEDED"), SnapshotCache()
    assert await cache.ended(table, job()) is None
    assert [0, 1] == table.read
    assert await cache.ended(table, job()) is None
    assert [0, 1, 1] == table.read
    table.statuses[1] = "SUCCEEDED"
    assert await cache.ended(table, job()) is not None
    assert [0, 1, 1, 1, 0, 1, 2] == table.read


async def test_a_snapshot_of_another_job_is_kept_beside_it() -> None:
    table, cache = Chunks("PENDING"), SnapshotCache()
    assert await cache.ended(table, job(chunks=1)) is None
    table.statuses[0] = "SUCCEEDED"
    assert await cache.ended(table, job(OTHER, chunks=1)) is not None


@pytest.mark.parametrize(("ref", "gen"), [(OTHER, 2), (REF, 1), (REF, 3)])
def test_what_was_seen_is_for_the_join_of_that_life_of_that_job(
    ref: JobRef, gen: int
) -> None:
    cache, snapshot = SnapshotCache(), JobSnapshot()
    cache.keep(job(gen=2), snapshot)
    assert cache.take(ref, gen) is None
    assert cache.take(REF, 2) is snapshot


def test_what_was_seen_is_returned_once() -> None:
    cache = SnapshotCache()
    cache.keep(job(), JobSnapshot())
    cache.take(REF, 1)
    assert cache.take(REF, 1) is None


def test_what_was_seen_of_many_small_jobs_is_kept() -> None:
    cache, snapshots = SnapshotCache(), [rows(10) for _ in range(50)]
    for number, snapshot in enumerate(snapshots):
        cache.keep(job(JobRef("acme", f"j{number}")), snapshot)
    kept = [cache.take(JobRef("acme", f"j{n}"), 1) for n in range(50)]
    assert snapshots == kept


def test_of_what_is_too_much_the_oldest_goes_and_the_last_stays() -> None:
    cache, large = SnapshotCache(), rows(MOST_ROWS + 1)
    cache.keep(job(OTHER), rows(1))
    cache.keep(job(), large)
    assert cache.take(OTHER, 1) is None
    assert cache.take(REF, 1) is large


def rows(count: int) -> JobSnapshot:
    one = Counted(1, ChunkStatus.SUCCEEDED, "", "", "")
    return JobSnapshot([one] * count)
