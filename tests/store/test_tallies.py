"""Tallies count each chunk once."""

from __future__ import annotations

import asyncio

import pytest

from piecework.domain import keys
from piecework.domain.states import JobStatus
from tests.store.conftest import Store


async def test_counting_twice_counts_once(store: Store) -> None:
    tallies = store.tallies
    assert await tallies.add(store.ref, 0, [0, 1], 3) is False
    assert await tallies.add(store.ref, 0, [0, 1], 3) is False
    assert await tallies.count_ended(store.ref, 3) == 2
    assert await tallies.add(store.ref, 0, [2], 3) is True
    assert await tallies.add(store.ref, 0, [1], 3) is True


async def test_many_processes_that_count_at_once_lose_nothing_and_one_sees_the_end(
    store: Store,
) -> None:
    adds = (store.tallies.add(store.ref, 0, [n], 32) for n in range(32))
    assert any(await asyncio.gather(*adds))
    assert await store.tallies.count_ended(store.ref, 32) == 32


async def test_a_large_job_is_full_with_its_last_group(store: Store) -> None:
    await store.put_job(JobStatus.RUNNING)
    tallies = store.tallies
    assert await tallies.add(store.ref, 1, range(256, 300), 300) is False
    assert await tallies.add(store.ref, 0, range(255), 300) is False
    assert await tallies.add(store.ref, 0, [255], 300) is True
    assert await tallies.count_ended(store.ref, 300) == 300


async def test_a_tally_makes_no_job(store: Store) -> None:
    assert await store.tallies.add(store.ref, 0, range(256), 300) is False
    await store.tallies.remove(store.ref, 0, [1])
    assert await store.jobs.read(store.ref) is None


async def test_reopened_chunks_are_counted_anew(store: Store) -> None:
    await store.put_job(JobStatus.RUNNING)
    await store.tallies.add(store.ref, 1, range(256, 300), 300)
    await store.tallies.add(store.ref, 0, range(256), 300)
    await store.tallies.remove(store.ref, 0, [3, 4])
    assert await store.tallies.count_ended(store.ref, 300) == 298
    assert await store.tallies.add(store.ref, 0, [3], 300) is False
    assert await store.tallies.add(store.ref, 0, [4], 300) is True


async def test_a_job_of_many_blocks_is_full_with_its_last_group(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keys, "BLOCK_SIZE", 2)
    await store.put_job(JobStatus.RUNNING, chunks=700)
    tallies = store.tallies
    assert await tallies.add(store.ref, 2, range(512, 700), 700) is False
    assert await tallies.add(store.ref, 0, range(256), 700) is False
    assert await tallies.add(store.ref, 1, range(256, 512), 700) is True
    await tallies.remove(store.ref, 0, [3])
    assert await tallies.count_ended(store.ref, 700) == 699
    assert await tallies.add(store.ref, 1, [256], 700) is False
    assert await tallies.add(store.ref, 0, [3], 700) is True
    assert await tallies.count_ended(store.ref, 700) == 700
