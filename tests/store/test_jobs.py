"""A job is created once, gets its chunks and its notification."""

from __future__ import annotations

from typing import Any

import pytest

from piecework.domain import keys
from piecework.domain.moments import iso
from piecework.domain.states import JobStatus
from tests.store.conftest import NOW, Store, Stutter

S = JobStatus

FACTS = {"pipeline": "review", "chunks": 5, "owner": "me"}


async def test_a_new_job_is_listed_and_active(store: Store) -> None:
    assert await store.jobs.create(store.ref, FACTS) is None
    job = await store.jobs.read(store.ref)
    assert job is not None
    assert (job.status, job.gen, job.chunks) == (S.SUBMITTING, 1, 5)
    assert [r async for r in store.jobs.listed(store.ref.tenant)] == [store.ref]
    assert store.ref in [ref async for ref in store.jobs.active()]


async def test_a_job_is_created_once(store: Store) -> None:
    await store.jobs.create(store.ref, FACTS)
    with store.unchanged():
        store.now += 100
        there = await store.jobs.create(store.ref, FACTS | {"chunks": 9})
        assert there is not None
        assert there.chunks == 5


async def test_a_birth_whose_answer_was_lost_is_a_birth(store: Store) -> None:
    store.client = Stutter(store.client)
    assert await store.jobs.create(store.ref, FACTS) is None


def chunks(*numbers: int) -> list[tuple[int, dict[str, Any]]]:
    return [(number, {"stage": "first", "payload": "p/0+1"}) for number in numbers]


async def test_chunks_are_added_to_a_submit(store: Store) -> None:
    await store.put_job(S.SUBMITTING)
    await store.jobs.add_chunks(store.ref, 2, chunks(*range(25)))
    assert await store.jobs.count_chunks(store.ref, 25) == 25
    item = await store.item()
    assert (item["status"], item["gen"], item["fence"]) == ("PENDING", 2, 0)
    assert (item["attempts"], item["stage"]) == (0, "first")


async def test_chunks_of_several_groups_are_all_counted(store: Store) -> None:
    await store.put_job(S.SUBMITTING)
    await store.jobs.add_chunks(store.ref, 2, chunks(0, 255, 256, 600))
    assert await store.jobs.count_chunks(store.ref, 601) == 4


async def test_chunks_that_exist_are_left_as_they_are(store: Store) -> None:
    await store.put_job(S.SUBMITTING)
    await store.running()
    before = await store.item()
    await store.jobs.add_chunks(store.ref, 2, chunks(2, 3, 4))
    assert await store.jobs.count_chunks(store.ref, 5) == 3
    assert before == await store.item()


async def test_a_birth_touches_no_row_but_its_own(store: Store) -> None:
    """Another write of the job at the same time cannot make a birth fail."""
    await store.put_job(S.RUNNING, gen=3)
    before = await store.item(store.ref.pk, keys.META_SK)
    await store.jobs.add_chunks(store.ref, 2, chunks(1, 2))
    assert before == await store.item(store.ref.pk, keys.META_SK)
    assert await store.jobs.count_chunks(store.ref, 5) == 2


async def test_chunks_whose_answer_was_lost_were_added(store: Store) -> None:
    await store.put_job(S.SUBMITTING)
    store.client = Stutter(store.client)
    await store.jobs.add_chunks(store.ref, 2, chunks(1, 2))
    assert await store.jobs.count_chunks(store.ref, 5) == 2


async def test_a_notice_is_left_on_a_job_and_on_nothing_else(store: Store) -> None:
    await store.jobs.note(store.ref, "runtime.pipeline.unknown", "said")
    assert await store.jobs.read(store.ref) is None
    await store.put_job(S.RUNNING)
    await store.jobs.note(store.ref, "runtime.pipeline.unknown", "said")
    item = await store.item(store.ref.pk, keys.META_SK)
    assert (item["status_reason"], item["status_reason_code"]) == (
        "said",
        "runtime.pipeline.unknown",
    )


async def test_a_submit_records_its_progress(store: Store) -> None:
    job = await store.put_job(S.SUBMITTING)
    assert await store.jobs.touch(job) is True
    item = await store.item(store.ref.pk, keys.META_SK)
    assert iso(NOW) == item["progress_at"]


@pytest.mark.parametrize(
    "now", [{"status": S.CANCELLING}, {"status": S.SUBMITTING, "gen": 3}]
)
async def test_a_job_that_moved_on_records_no_progress(
    store: Store, now: dict[str, Any]
) -> None:
    job = await store.put_job(S.SUBMITTING)
    await store.put_job(**now)
    assert (False, {}) == await store.does(store.jobs.touch(job))


async def test_the_chunks_of_very_many_groups_are_counted(store: Store) -> None:
    await store.put_job(S.SUBMITTING)
    await store.jobs.add_chunks(store.ref, 2, chunks(*range(0, 20 * 256, 256)))
    assert await store.jobs.count_chunks(store.ref, 20 * 256) == 20


async def test_events_are_kept_in_their_order_and_never_overwritten(
    store: Store,
) -> None:
    await store.put_job(S.RUNNING)
    for n in range(3):
        await store.jobs.record(store.ref, "cancelled", {"n": n})
        store.now += 1
    await store.jobs.record(store.ref, "a", {})
    await store.jobs.record(store.ref, "a", {})
    found = [e.facts.get("n", e.event) for e in await store.jobs.events(store.ref)]
    assert found == [0, 1, 2, "a", "a"]


@pytest.mark.parametrize("now", [{}, {"pinned_to": "v2"}, {"status": S.DELETING}])
async def test_a_pin_is_removed_once_and_only_as_it_was_read(
    store: Store, now: dict[str, Any]
) -> None:
    job = await store.put_job(S.RUNNING, pinned_to="v1")
    if now:
        await store.put_job(**{"status": S.RUNNING, "pinned_to": "v1", **now})
    is_as_read = not now
    assert is_as_read is await store.jobs.unpin(job)
    item = await store.item(store.ref.pk, keys.META_SK)
    assert is_as_read is ("pinned_to" not in item)
    assert not await store.jobs.unpin(job)


async def test_a_change_is_noted_once_and_the_first_twenty_are_kept(
    store: Store,
) -> None:
    assert not await store.jobs.note_change(store.ref, "v1: a")
    await store.put_job(S.RUNNING)
    wrote = [await store.jobs.note_change(store.ref, f"v{n}: a") for n in range(21)]
    again = await store.jobs.note_change(store.ref, "v1: a")
    job = await store.jobs.read(store.ref)
    assert job is not None
    assert [True] * 20 + [False, False] == [*wrote, again]
    assert 20 == len(job.code_changes) == len(await store.jobs.events(store.ref))
