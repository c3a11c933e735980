"""Tallies count each chunk once, in its group; a full group counts in its job."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from piecework.cost.units import item_size
from piecework.domain import keys
from piecework.domain.job import Job
from piecework.domain.states import JobStatus
from tests.store.conftest import Store

#: One group more than a block has.
VERY_LARGE = keys.BLOCK_SIZE * keys.PARTITION_SIZE + 1


ALL = set(range(256))
#: The chunks of the job, or None without one. Then steps: verb, group, chunks, whether
#: the job is full (or None), and what its rows have then if the step changes them: the
#: chunks of the group, the groups of the block, the set of the job. How many ended.
SCRIPTS: dict[str, tuple[int | None, list[tuple[Any, ...]], int]] = {
    "chunks are a set, and a small job is full with its only group": (
        3,
        [
            ("add", 0, [0, 1, 1], False, {0, 1}),
            ("add", 0, [0, 1], False),
            ("add", 0, [], False),
            ("add", 0, [2], True, {0, 1, 2}),
            ("add", 0, [1], True),
        ],
        3,
    ),
    "a large job is full with its last group, and reopened chunks count anew": (
        300,
        [
            ("add", 1, range(256, 299), False, {*range(256, 299)}),
            ("add", 1, [299], False, {*range(256, 300)}, None, {1}),
            ("add", 0, range(255), False, ALL - {255}),
            ("add", 0, [255], True, ALL, None, {0, 1}),
            ("remove", 0, [3, 4], None, ALL - {3, 4}, None, {1}),
            ("add", 0, [3], False, ALL - {4}),
        ],
        299,
    ),
    "a job of blocks of two groups is full with its last block": (
        700,
        [
            ("add", 2, range(512, 700), False, {*range(512, 700)}, {2}, {1}),
            ("add", 0, range(256), False, ALL, {0}),
            ("add", 1, range(256, 512), True, {*range(256, 512)}, {0, 1}, {0, 1}),
            ("remove", 0, [3], None, ALL - {3}, {1}, {1}),
            ("add", 1, [256], False),
            ("add", 0, [3], True, ALL, {0, 1}, {0, 1}),
        ],
        700,
    ),
    "a job that is gone is not full, and no tally makes it": (
        None,
        [("add", 0, range(256), False, ALL), ("remove", 0, [1], None, ALL - {1})],
        255,
    ),
}


@pytest.mark.parametrize("name", list(SCRIPTS))
async def test_each_step_changes_the_tallies_that_it_must(
    store: Store, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keys, "BLOCK_SIZE", 2)
    of_job, steps, ended = SCRIPTS[name]
    chunks = of_job or 300
    if of_job:
        await store.put_job(JobStatus.RUNNING, chunks=chunks)
    of_all = "full_blocks" if keys.block_count(chunks) > 1 else "full_groups"
    names = {"TALLY": "ended_chunks", "TALLY#GROUPS": "full_groups", "META": of_all}
    for verb, group, numbers, is_full, *rows in steps:
        many = [chunks] if verb == "add" else []
        act = getattr(store.tallies, verb)(store.ref, group, numbers, *many)
        answer, changed = await store.does(act)
        found = [changed.pop(sk, {}).get(names[sk]) for sk in names]
        assert (is_full, [*rows, None, None, None][:3]) == (answer, found), numbers
        assert changed == {}
    assert ended == await store.tallies.count_ended(store.ref, chunks)


async def test_counting_twice_counts_once(store: Store) -> None:
    assert await store.tallies.add(store.ref, 0, [0, 1], 3) is False
    with store.unchanged():
        assert await store.tallies.add(store.ref, 0, [0, 1], 3) is False
    assert await store.tallies.count_ended(store.ref, 3) == 2


async def test_many_processes_that_count_at_once_lose_nothing_and_one_sees_the_end(
    store: Store,
) -> None:
    adds = (store.tallies.add(store.ref, 0, [n], 32) for n in range(32))
    assert any(await asyncio.gather(*adds))
    assert await store.tallies.count_ended(store.ref, 32) == 32


@pytest.mark.parametrize(
    ("job", "ended"),
    [
        ({"chunks": 300}, 0),
        ({"chunks": 300, "full_groups": {0}}, 256),
        ({"chunks": 300, "full_groups": {0, 1}}, 300),
        ({"chunks": VERY_LARGE, "full_blocks": {0}}, 65_536),
    ],
)
def test_a_job_counts_ended_chunks_by_its_full_groups(
    store: Store, job: Any, ended: int
) -> None:
    item = {"status": "RUNNING", "gen": 1, "pipeline": "p", **job}
    assert ended == Job.read(store.ref, item).ended_at_least


def test_the_item_that_all_workers_read_stays_small_however_large_the_job() -> None:
    blocks = {str(block) for block in range(keys.block_count(keys.MAX_CHUNK_NUMBER))}
    assert item_size({"full_blocks": {"NS": sorted(blocks)}}) < 5_000
