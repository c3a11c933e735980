"""A reconciler spares the groups of a job in which all have ended for good."""

from __future__ import annotations

from math import inf
from random import Random
from typing import Any

import pytest

from piecework.domain import keys
from piecework.domain.chunk import Chunk
from piecework.domain.job import Job
from piecework.domain.moments import iso
from piecework.domain.refs import JobRef
from piecework.reconciler.liveness import LeaseObserver
from piecework.reconciler.pass_state import QuietGroups
from piecework.reconciler.plan import fair_rate, groups_to_read, plan_reads
from piecework.store.completion import Tallies
from piecework.store.table import Item, Table

REF = JobRef("acme", "job")
BLOCK = keys.BLOCK_SIZE * keys.PARTITION_SIZE


class Blocks(Table):
    """A table that holds the tallies of blocks: one for each first group."""

    def __init__(self, **full: set[int]) -> None:
        super().__init__(None, "table", Random(1))  # type: ignore[arg-type]
        self.full = {pk: {"full_groups": groups} for pk, groups in full.items()}
        self.asked = 0

    async def get(self, pk: str, sk: str) -> Item | None:
        assert keys.BLOCK_SK == sk
        self.asked += 1
        return self.full.get(pk.rpartition("#")[2])


def job(chunks: int, gen: int = 1, **facts: Any) -> Job:
    item = {"status": "RUNNING", "gen": gen, "chunks": chunks, "pipeline": "p"}
    return Job.read(REF, item | facts)


@pytest.mark.parametrize(
    ("found", "groups"),
    [
        (job(1), {0}),
        (job(1000), {0, 1, 2, 3}),
        (job(1000, full_groups={1, 3}), {0, 2}),
        (job(1000, full_groups={0, 1, 2, 3}), set()),
        (job(1000, gen=2, full_groups={1, 3}), {0, 1, 2, 3}),
    ],
)
async def test_a_full_group_is_spared_in_the_first_life_of_a_job(
    found: Job, groups: set[int]
) -> None:
    table = Blocks()
    assert groups == await groups_to_read(Tallies(table), found, found.chunks)
    assert 0 == table.asked


async def test_a_very_large_job_is_spared_its_full_blocks_and_groups() -> None:
    table = Blocks(**{"0512": {513, 514}})
    huge = job(2 * BLOCK + 4 * keys.PARTITION_SIZE, full_blocks={0})
    groups = await groups_to_read(Tallies(table), huge, huge.chunks)
    assert {*range(256, 512), 512, 515} == groups
    assert 2 == table.asked


class OneTally(Table):
    """A table with the tally of the second group."""

    def __init__(self, *ended: int) -> None:
        super().__init__(None, "table", Random(1))  # type: ignore[arg-type]
        self.ended = ended

    async def get(self, pk: str, sk: str) -> Item | None:
        assert (keys.partition_pk("acme", "job", 1), keys.TALLY_SK) == (pk, sk)
        return {"ended_chunks": set(self.ended)} if self.ended else None


@pytest.mark.parametrize(
    ("ended", "drawn", "read"),
    [
        ((), 300, {1: range(256, 300)}),
        ((256, 257, 260), 300, {1: range(258, 300)}),
        ((256, 298, 299), 300, {1: range(257, 298)}),
        (range(256, 300), 300, {}),
        ((), 900, {1: range(256, 512)}),
    ],
)
async def test_only_the_chunks_between_the_open_ones_are_read(
    ended: Any, drawn: int, read: dict[int, range]
) -> None:
    tallies, found = Tallies(OneTally(*ended)), job(1000)
    assert read == await plan_reads(tallies, found, {1}, drawn, whole=False)
    of_all = await plan_reads(tallies, found, {1}, drawn, whole=True)
    assert {1: range(256, min(drawn, 512))} == of_all


async def test_a_group_that_nobody_has_drawn_from_is_spared() -> None:
    blocks = Blocks()
    assert {0, 1} == await groups_to_read(Tallies(blocks), job(1000), 257)
    huge = job(4 * BLOCK)
    assert set(range(257)) == await groups_to_read(Tallies(blocks), huge, BLOCK + 1)
    assert 2 == blocks.asked


@pytest.mark.parametrize(
    ("wanted", "fair"),
    [
        ([], inf),
        ([199.0], inf),
        ([300.0], 200.0),
        ([100.0, 101.0], 100.0),
        ([10.0, 500.0, 300.0], 95.0),
        ([1.0] * 100 + [500.0], 100.0),
    ],
)
def test_a_large_job_takes_no_reads_from_small_ones(
    wanted: list[float], fair: float
) -> None:
    assert fair == fair_rate(wanted, 200.0)


def test_what_was_seen_in_a_spared_group_is_dropped() -> None:
    leases = LeaseObserver()
    item = {"status": "RUNNING", "gen": 1, "fence": 1}
    others = JobRef("acme", "other")
    for ref in (REF.chunk(3), REF.chunk(300), others.chunk(300)):
        leases.unchanged_for(Chunk.read(ref, item), 1.0)
    leases.keep_only(REF, {0})
    for number, seen in ((3, 1.0), (300, 0.0)):
        chunk = Chunk.read(REF.chunk(number), item)
        assert seen == leases.unchanged_for(chunk, 2.0)
    assert 1.0 == leases.unchanged_for(Chunk.read(others.chunk(300), item), 2.0)


def test_the_quiet_groups_of_a_job_that_has_ended_are_forgotten() -> None:
    quiet, again = QuietGroups(), job(1, gen=2)
    for each in job(1), again:
        quiet.note(each, 0, iso(60.0), 1, 0.0)

    quiet.forget(REF)

    assert {} == quiet.of(job(1), 0.0) | quiet.of(again, 0.0)
