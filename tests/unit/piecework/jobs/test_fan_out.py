"""A submit that gets on shows that it is alive; one that is small need not."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from piecework.domain import keys
from piecework.domain.job import Job
from piecework.domain.refs import JobRef
from piecework.errors import StoreError
from piecework.jobs.fan_out import (
    PROGRESS_WRITE_S,
    ProgressMark,
    count_chunks,
    interleave,
)
from piecework.jobs.manifest import Entry
from piecework.store.table import INSERTS_AT_ONCE

REF = JobRef("acme", "job")


@dataclass
class World:
    """A clock, and a record that keeps when it was told."""

    now: float = 100.0
    shown: list[tuple[JobRef, int, float]] = field(default_factory=list)

    @property
    def jobs(self) -> Any:
        return self

    def clock(self) -> float:
        return self.now

    async def touch(self, job: Job) -> bool:
        self.shown.append((job.ref, job.gen, self.now))
        return True


async def test_a_large_submit_shows_a_sign_of_life_now_and_then() -> None:
    world: Any = World()
    item = {"status": "SUBMITTING", "gen": 2, "chunks": 1, "pipeline": "p"}
    mark = ProgressMark(world, Job.read(REF, item))
    for seconds in (0.0, PROGRESS_WRITE_S - 1, 1.0, 1.0, PROGRESS_WRITE_S):
        world.now += seconds
        await mark.write_if_due()
    first = 100.0 + PROGRESS_WRITE_S
    assert [(REF, 2, first), (REF, 2, first + PROGRESS_WRITE_S + 1)] == world.shown


async def test_a_sign_of_life_that_fails_ends_no_submit() -> None:
    """Its request may meet a transaction that changes the job's item."""

    class Contended(World):
        async def touch(self, job: Job) -> bool:
            await super().touch(job)
            raise StoreError("contended", code="aws.transaction.conflict")

    world: Any = Contended()
    item = {"status": "SUBMITTING", "gen": 2, "chunks": 1, "pipeline": "p"}
    mark = ProgressMark(world, Job.read(REF, item))
    world.now += PROGRESS_WRITE_S
    await mark.write_if_due()
    assert 1 == len(world.shown)


async def entries(count: int) -> AsyncIterator[Entry]:
    for number in range(count):
        yield Entry(number, "", "p/0+1", "ab")


@pytest.mark.parametrize("count", [1, 99, 100, 300, 4096, 5000])
async def test_every_entry_is_written_once_in_as_few_requests_as_may_be(
    count: int,
) -> None:
    lists = [some async for some in interleave(entries(count))]
    assert list(range(count)) == sorted(e.chunk for some in lists for e in some)
    assert max(map(len, lists)) <= INSERTS_AT_ONCE
    assert len(lists) <= count / INSERTS_AT_ONCE + 2


async def test_what_is_written_together_lies_in_many_groups() -> None:
    lists = [some async for some in interleave(entries(8192))]
    for first in range(len(lists) - 8):
        window = lists[first : first + 8]
        chunks = Counter(keys.group_of(e.chunk) for some in window for e in some)
        assert max(chunks.values()) <= 2 * INSERTS_AT_ONCE
        assert len(chunks) >= 8


async def counted_by(blocks: list[int], chunks: int) -> tuple[World, list[Any]]:
    """Count chunks in blocks that take 6 s each; return who was told of it."""

    class Slow(World):
        async def count_chunks(self, _: JobRef, __: int, told: Any) -> int:
            for found in blocks:
                self.now += 6.0
                await told(found)
            return blocks[-1]

    world: Any = Slow()
    item = {"status": "SUBMITTING", "gen": 2, "chunks": chunks, "pipeline": "p"}
    job, told = Job.read(REF, item), list[Any]()
    mark = ProgressMark(world, job)
    progress = lambda *step: told.append(step)  # noqa: E731 -- it returns nothing
    assert blocks[-1] == await count_chunks(world, job, progress, mark)
    return world, told


async def test_a_count_of_very_many_chunks_reports_progress() -> None:
    world, told = await counted_by([4096, 8192, 9000], 9000)
    assert [112.0] == [at for *_, at in world.shown]
    assert [("counted", 4096), ("counted", 8192), ("counted", 9000)] == told


async def test_few_chunks_are_counted_without_a_word() -> None:
    assert [] == (await counted_by([300], 300))[1]
