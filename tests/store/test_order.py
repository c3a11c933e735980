"""A chunk of an order key is unblocked, skipped and ended only as it was read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from piecework.domain.moments import iso
from piecework.domain.states import ChunkStatus, JobStatus
from piecework.store.order import end_stopped, skipping, unblock
from piecework.store.reopen import reopen_chunk
from tests.store.conftest import NOW, Store

BEHIND: dict[str, Any] = {"order_key": "k", "blocked_by": 2}


@pytest.mark.parametrize("status", ["PENDING", "CANCELLED"])
async def test_a_chunk_is_unblocked_once_by_the_chunk_before_it(
    store: Store, status: str
) -> None:
    await store.put_chunk(status=status, **BEHIND)
    assert (None, {}) == await store.does(unblock(store.table, store.chunk, 1, NOW))
    found = await unblock(store.table, store.chunk, 2, NOW + 90)
    item = await store.item()
    assert found is not None
    assert found.item == item
    assert (item["redispatch_at"], "blocked_by" in item) == (iso(NOW + 90), False)
    assert await unblock(store.table, store.chunk, 2, NOW + 91) is None
    assert item == await store.item()


async def test_an_unblocked_chunk_keeps_the_time_of_its_slot(store: Store) -> None:
    await store.put_chunk(redispatch_at=iso(NOW + 600), **BEHIND)
    assert await unblock(store.table, store.chunk, 2, NOW + 90)
    assert (await store.item())["redispatch_at"] == iso(NOW + 600)


@pytest.mark.parametrize("now", [{"gen": 3}, {"status": "PENDING"}])
async def test_a_chunk_is_skipped_only_as_it_died(
    store: Store, now: dict[str, Any]
) -> None:
    await store.put_chunk(status="DEAD", order_key="k")
    skip = skipping(store.table, store.chunk, 2, NOW)
    await store.change(**now)
    with store.unchanged():
        await store.table.transact([skip])
    await store.change(gen=2, status="DEAD")
    await store.table.transact([skip])
    assert (await store.item())["skipped_at"] == iso(NOW)


async def test_a_skipped_chunk_is_never_reopened(store: Store) -> None:
    await store.put_job(JobStatus.REOPENING, gen=5)
    chunk = await store.put_chunk(status="DEAD", skipped_at=iso(NOW))
    assert (False, {}) == await store.does(reopen_chunk(store.table, chunk, 5))


@pytest.mark.parametrize(
    "now", [{"blocked_by": None}, {"gen": 3}, {"status": "CANCELLED"}, {"fence": 1}]
)
async def test_a_key_that_went_on_keeps_its_chunks(
    store: Store, now: dict[str, Any]
) -> None:
    chunk = await store.put_chunk(**BEHIND)
    last, other = store.ref.chunk(4), store.ref.chunk(5)
    later = replace(chunk, ref=last, item={**chunk.item, "blocked_by": 3})
    beside = replace(
        chunk, ref=other, item={**chunk.item, "order_key": "l", "blocked_by": 1}
    )
    for each in (later, beside):
        await store.put(each.ref.pk, each.ref.sk, **each.item)
    for before in (store.ref.chunk(1), store.ref.chunk(2)):
        await store.put(before.pk, before.sk, **{**chunk.item, "status": "DEAD"})
    await store.change(**now)
    kept = await store.item()
    assert 1 == await end_stopped(store.table, [chunk, later, beside], NOW)
    assert kept == await store.item()
    ended = await store.item(other.pk, other.sk)
    assert (ended["status"], ended["error_code"]) == (
        ChunkStatus.CANCELLED,
        "runtime.order.stopped",
    )
    assert (await store.item(last.pk, last.sk))["status"] == ChunkStatus.PENDING


@pytest.mark.parametrize("now", [{"status": "WAITING"}, {"skipped_at": iso(NOW)}])
async def test_no_chunk_ends_behind_one_that_stops_its_key_no_more(
    store: Store, now: dict[str, Any]
) -> None:
    chunk, stop = await store.put_chunk(**BEHIND), store.ref.chunk(2)
    await store.put(stop.pk, stop.sk, **{**chunk.item, "status": "DEAD", **now})
    with store.unchanged():
        assert 0 == await end_stopped(store.table, [chunk], NOW)
