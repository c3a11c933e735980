"""The writes on jobs, on chunks that nobody holds, on tallies and dead letters."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from piecework import keys
from piecework.model import Chunk, Job, JobStatus, iso
from piecework.store.cancels import cancel_unclaimed, request_cancel
from piecework.store.reopen import reopen_chunk
from piecework.store.table import Written
from tests.store.conftest import NOW, Store, Stutter

# ── chunks that nobody holds ─────────────────────────────────────────────────

ChunkWrite = Callable[[Store, Chunk], Awaitable[bool]]


async def give_back(store: Store, seen: Chunk) -> bool:
    return await store.rescue.give_back(seen)


async def send_again(store: Store, seen: Chunk) -> bool:
    return await store.rescue.send_again(seen)


async def cancel_chunk(store: Store, seen: Chunk) -> bool:
    return await cancel_unclaimed(store.table, seen, store.now)


async def ask_to_stop(store: Store, seen: Chunk) -> bool:
    return await request_cancel(store.table, seen)


async def reopen(store: Store, seen: Chunk) -> bool:
    return await reopen_chunk(store.table, seen, 5)


RUNNING = {"status": "RUNNING", "fence": 4, "heartbeat": 7, "claimed_by": "other"}
WAITING = {"status": "WAITING", "fence": 4}
DEAD = {"status": "DEAD", "fence": 4, "attempts": 3, "resume_at": "second"}

#: A write, the state it is for, and the status that it leaves.
CHUNK_WRITES: dict[str, tuple[ChunkWrite, dict[str, Any], str]] = {
    "give back": (give_back, RUNNING, "WAITING"),
    "send again, pending": (send_again, {}, "PENDING"),
    "send again, waiting": (send_again, WAITING, "WAITING"),
    "cancel, pending": (cancel_chunk, {}, "CANCELLED"),
    "cancel, waiting": (cancel_chunk, WAITING, "CANCELLED"),
    "cancel, running": (cancel_chunk, RUNNING, "CANCELLED"),
    "ask to stop": (ask_to_stop, RUNNING, "RUNNING"),
    "reopen, dead": (reopen, DEAD, "PENDING"),
    "reopen, cancelled": (reopen, DEAD | {"status": "CANCELLED"}, "PENDING"),
}
#: What may have changed since the look, and the writes that care.
SINCE: dict[str, tuple[dict[str, Any], set[ChunkWrite]]] = {
    "status": (
        {"status": "SUCCEEDED"},
        {give_back, send_again, cancel_chunk, ask_to_stop, reopen},
    ),
    "gen": ({"gen": 3}, {give_back, send_again, cancel_chunk, ask_to_stop, reopen}),
    "fence": ({"fence": 5}, {give_back, send_again, cancel_chunk}),
    "heartbeat": ({"heartbeat": 8}, {give_back}),
}


@pytest.mark.parametrize("name", list(CHUNK_WRITES))
async def test_a_chunk_as_it_was_seen_is_written(store: Store, name: str) -> None:
    write, state, status = CHUNK_WRITES[name]
    seen = await store.put_chunk(**state)
    assert await write(store, seen) is True
    item = await store.item()
    assert status == item["status"]
    assert write is ask_to_stop or "claimed_by" not in item


@pytest.mark.parametrize("name", list(CHUNK_WRITES))
@pytest.mark.parametrize("what", list(SINCE))
async def test_a_chunk_that_moved_since_is_left_alone(
    store: Store, name: str, what: str
) -> None:
    write, state, _ = CHUNK_WRITES[name]
    change, concerned = SINCE[what]
    if write not in concerned and not (name == "cancel, running" and what[0] == "h"):
        pytest.skip("not a word of this write's condition")
    seen = await store.put_chunk(**state)
    await store.change(**change)
    before = await store.everything()
    assert await write(store, seen) is False
    assert before == await store.everything()


@pytest.mark.parametrize("name", list(CHUNK_WRITES))
async def test_a_chunk_that_is_gone_is_not_made(store: Store, name: str) -> None:
    write, state, _ = CHUNK_WRITES[name]
    seen = await store.put_chunk(**state)
    await store.drop()
    assert await write(store, seen) is False
    assert await store.item() == {}


async def test_a_result_is_never_reopened_whatever_was_asked(store: Store) -> None:
    seen = await store.put_chunk(status="SUCCEEDED")
    assert await reopen(store, seen) is False


@pytest.mark.parametrize("name", ["give back", "cancel, pending", "reopen, dead"])
async def test_of_many_who_saw_the_same_one_writes(store: Store, name: str) -> None:
    write, state, _ = CHUNK_WRITES[name]
    seen = await store.put_chunk(**state)
    done = await asyncio.gather(*(write(store, seen) for _ in range(8)))
    assert sum(done) == 1


async def test_a_dead_lease_that_is_given_back_keeps_its_attempt(store: Store) -> None:
    await give_back(store, await store.put_chunk(**(RUNNING | {"attempts": 2})))
    item = await store.item()
    assert (item["attempts"], item["error_code"]) == (2, "runtime.worker.lost")
    assert "retry_at" not in item


@pytest.mark.parametrize(
    ("dispatches", "wait"), [(None, 900), (1, 1800), (8, 900 * 256), (99, 900 * 256)]
)
async def test_each_resend_doubles_the_wait_for_the_next(
    store: Store, dispatches: int | None, wait: int
) -> None:
    await send_again(store, await store.put_chunk(dispatches=dispatches))
    item = await store.item()
    assert item["due_at"] == iso(NOW + wait)
    assert item["dispatches"] == (dispatches or 0) + 1


async def test_a_reopened_chunk_begins_a_new_life_where_it_has_to(store: Store) -> None:
    state = DEAD | {"stage": "third", "recoveries": 4, "cancel_requested": True}
    await reopen(store, await store.put_chunk(**state))
    item = await store.item()
    assert (item["gen"], item["attempts"], item["fence"]) == (5, 0, 4)
    assert (item["stage"], item["replays"]) == ("second", 1)
    gone = {"resume_at", "recoveries", "cancel_requested", "settled_at"}
    assert not gone & set(item)


# ── jobs ─────────────────────────────────────────────────────────────────────

JobWrite = Callable[[Store, Job], Awaitable[Any]]
S = JobStatus


async def open_job(store: Store, job: Job) -> Any:
    return await store.jobs.open(job.ref, job.gen)


async def sent(store: Store, job: Job) -> Any:
    return await store.jobs.sent(job.ref, job.gen)


async def finalize(store: Store, job: Job) -> Any:
    return await store.jobs.finalize(job, {"stage": "join"})


async def ending(store: Store, job: Job) -> Any:
    actions = store.jobs.ending(job, S.PARTIAL, {"certificate": "c", "outcomes": {}})
    return isinstance(await store.table.transact(actions), Written)


async def reopen_job(store: Store, job: Job) -> Any:
    facts = {"reopened_by": "me", "reopen_reason": "why"}
    return await store.jobs.reopen(job, facts) == job.gen + 1


async def resume(store: Store, job: Job) -> Any:
    return await store.jobs.resume(job)


async def cancel_job(store: Store, job: Job) -> Any:
    return await store.jobs.cancel(job, {"cancelled_by": "me", "cancel_reason": "why"})


async def cancelled(store: Store, job: Job) -> Any:
    return await store.jobs.cancelled(job, {"certificate": "c"})


#: A write, the state it is for, the one that it leaves, and by how much gen rises.
JOB_WRITES: list[tuple[JobWrite, JobStatus, JobStatus, int]] = [
    (open_job, S.SUBMITTING, S.RUNNING, 0),
    (sent, S.RUNNING, S.RUNNING, 0),
    (finalize, S.RUNNING, S.FINALIZING, 0),
    (ending, S.FINALIZING, S.PARTIAL, 0),
    (reopen_job, S.PARTIAL, S.RESUMING, 1),
    (reopen_job, S.CANCELLED, S.RESUMING, 1),
    (resume, S.RESUMING, S.SUBMITTING, 0),
    (cancel_job, S.SUBMITTING, S.CANCELLING, 0),
    (cancel_job, S.RUNNING, S.CANCELLING, 0),
    (cancel_job, S.RESUMING, S.CANCELLING, 0),
    (cancelled, S.CANCELLING, S.CANCELLED, 0),
]
moves = pytest.mark.parametrize(
    ("write", "source", "target", "raised"),
    JOB_WRITES,
    ids=[f"{w.__name__}-{s}" for w, s, _, _ in JOB_WRITES],
)


@moves
async def test_a_job_moves_from_the_state_it_is_in(
    store: Store, write: JobWrite, source: S, target: S, raised: int
) -> None:
    job = await store.put_job(source)
    assert await write(store, job) is True
    item = await store.item(store.ref.pk, keys.META_SK)
    assert (item["status"], item["gen"]) == (target, 2 + raised)


@moves
async def test_a_job_that_moved_on_is_left_alone(
    store: Store, write: JobWrite, source: S, target: S, raised: int
) -> None:
    del raised
    job = await store.put_job(source)
    for status in set(S) - {source, target}:
        await store.change(store.ref.pk, keys.META_SK, status=status)
        before = await store.everything()
        assert await write(store, job) is False
        assert before == await store.everything()


@moves
async def test_a_job_of_another_generation_is_left_alone(
    store: Store, write: JobWrite, source: S, target: S, raised: int
) -> None:
    del target, raised
    job = await store.put_job(source)
    await store.change(store.ref.pk, keys.META_SK, gen=3)
    before = await store.everything()
    assert await write(store, job) is False
    assert before == await store.everything()


@moves
async def test_a_job_that_is_gone_is_not_made(
    store: Store, write: JobWrite, source: S, target: S, raised: int
) -> None:
    del target, raised
    job = await store.put_job(source)
    job = replace(job, ref=replace(job.ref, job="gone"))
    assert await write(store, job) is False
    assert await store.jobs.read(job.ref) is None


@moves
async def test_a_move_whose_answer_was_lost_was_made(
    store: Store, write: JobWrite, source: S, target: S, raised: int
) -> None:
    job = await store.put_job(source)
    store.client = Stutter(store.client)
    assert await write(store, job) is True
    assert store.client.sent == 1
    item = await store.item(store.ref.pk, keys.META_SK)
    assert (item["status"], item["gen"]) == (target, 2 + raised)


async def test_a_job_that_had_opened_is_resumed_to_running(store: Store) -> None:
    job = await store.put_job(S.RESUMING, opened_at=iso(NOW))
    assert await store.jobs.resume(job) is True
    assert (await store.item(store.ref.pk, keys.META_SK))["status"] == "RUNNING"


@pytest.mark.parametrize(("gen", "done"), [(1, True), (2, False), (3, False)])
async def test_a_join_is_made_once_a_generation(
    store: Store,
    gen: int,
    done: bool,  # noqa: FBT001
) -> None:
    job = await store.put_job(S.RUNNING)
    await store.put(store.ref.pk, "JOIN", status="DEAD", gen=gen)
    before = await store.everything()
    assert await finalize(store, job) is done
    assert (before == await store.everything()) is not done


async def test_a_job_that_ends_leaves_the_list_of_the_active(store: Store) -> None:
    async def active() -> bool:
        return store.ref in [ref async for ref in store.jobs.active()]

    job = await store.put_job(S.PARTIAL)
    assert await active() is False
    await reopen_job(store, job)
    assert await active() is True
    await store.change(store.ref.pk, keys.META_SK, status="FINALIZING", gen=2)
    await ending(store, job)
    assert await active() is False


FACTS = {"pipeline": "review", "chunks": 5, "owner": "me"}


async def test_a_job_is_born_listed_and_active(store: Store) -> None:
    assert await store.jobs.create(store.ref, FACTS) is None
    job = await store.jobs.read(store.ref)
    assert job is not None
    assert (job.status, job.gen, job.chunks) == (S.SUBMITTING, 1, 5)
    assert [r async for r in store.jobs.listed(store.ref.tenant)] == [store.ref]
    assert store.ref in [ref async for ref in store.jobs.active()]


async def test_a_job_is_born_once(store: Store) -> None:
    await store.jobs.create(store.ref, FACTS)
    before = await store.everything()
    store.now += 100
    there = await store.jobs.create(store.ref, FACTS | {"chunks": 9})
    assert there is not None
    assert there.chunks == 5
    assert before == await store.everything()


async def test_a_birth_whose_answer_was_lost_is_a_birth(store: Store) -> None:
    store.client = Stutter(store.client)
    assert await store.jobs.create(store.ref, FACTS) is None


def chunks(*numbers: int) -> list[tuple[int, dict[str, Any]]]:
    return [(number, {"stage": "first", "payload": "p/0+1"}) for number in numbers]


async def test_chunks_are_added_to_a_submit(store: Store) -> None:
    await store.put_job(S.SUBMITTING)
    assert await store.jobs.add_chunks(store.ref, 2, chunks(*range(99))) is True
    assert await store.jobs.count_chunks(store.ref, 99) == 99
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
    assert await store.jobs.add_chunks(store.ref, 2, chunks(2, 3, 4)) is True
    assert await store.jobs.count_chunks(store.ref, 5) == 3
    assert before == await store.item()


@pytest.mark.parametrize("status", sorted(set(S) - {S.SUBMITTING}))
async def test_a_job_that_moved_on_gets_no_more_chunks(store: Store, status: S) -> None:
    await store.put_job(status)
    before = await store.everything()
    assert await store.jobs.add_chunks(store.ref, 2, chunks(1, 2)) is False
    assert before == await store.everything()


async def test_a_job_that_is_gone_gets_no_chunks(store: Store) -> None:
    assert await store.jobs.add_chunks(store.ref, 2, chunks(1, 2)) is False
    assert await store.jobs.count_chunks(store.ref, 5) == 0


async def test_chunks_whose_answer_was_lost_were_added(store: Store) -> None:
    await store.put_job(S.SUBMITTING)
    store.client = Stutter(store.client)
    assert await store.jobs.add_chunks(store.ref, 2, chunks(1, 2)) is True
    assert await store.jobs.count_chunks(store.ref, 5) == 2


async def test_a_notice_is_left_on_a_job_and_on_nothing_else(store: Store) -> None:
    await store.jobs.note(store.ref, "runtime.pipeline.unknown", "said")
    assert await store.jobs.read(store.ref) is None
    await store.put_job(S.RUNNING)
    await store.jobs.note(store.ref, "runtime.pipeline.unknown", "said")
    item = await store.item(store.ref.pk, keys.META_SK)
    assert (item["notice"], item["notice_code"]) == ("said", "runtime.pipeline.unknown")


async def test_events_are_kept_in_their_order_and_never_overwritten(
    store: Store,
) -> None:
    for n in range(3):
        await store.jobs.record(store.ref, "cancelled", {"n": n})
        store.now += 1
    await store.jobs.record(store.ref, "a", {})
    await store.jobs.record(store.ref, "a", {})
    found = [e.get("n", e["event"]) for e in await store.jobs.events(store.ref)]
    assert found == [0, 1, 2, "a", "a"]


# ── tallies ──────────────────────────────────────────────────────────────────


async def test_counting_twice_counts_once(store: Store) -> None:
    tallies = store.tallies
    assert await tallies.add(store.ref, 0, [0, 1], 3) is False
    assert await tallies.add(store.ref, 0, [0, 1], 3) is False
    assert await tallies.settled(store.ref, 3) == 2
    assert await tallies.add(store.ref, 0, [2], 3) is True
    assert await tallies.add(store.ref, 0, [1], 3) is True


async def test_many_who_count_at_once_lose_nothing_and_one_sees_the_end(
    store: Store,
) -> None:
    adds = (store.tallies.add(store.ref, 0, [n], 32) for n in range(32))
    assert any(await asyncio.gather(*adds))
    assert await store.tallies.settled(store.ref, 32) == 32


async def test_a_large_job_is_full_with_its_last_group(store: Store) -> None:
    await store.put_job(S.RUNNING)
    tallies = store.tallies
    assert await tallies.add(store.ref, 1, range(256, 300), 300) is False
    assert await tallies.add(store.ref, 0, range(255), 300) is False
    assert await tallies.add(store.ref, 0, [255], 300) is True
    assert await tallies.settled(store.ref, 300) == 300


async def test_a_tally_makes_no_job(store: Store) -> None:
    assert await store.tallies.add(store.ref, 0, range(256), 300) is False
    await store.tallies.remove(store.ref, 0, [1])
    assert await store.jobs.read(store.ref) is None


async def test_reopened_chunks_are_counted_anew(store: Store) -> None:
    await store.put_job(S.RUNNING)
    await store.tallies.add(store.ref, 1, range(256, 300), 300)
    await store.tallies.add(store.ref, 0, range(256), 300)
    await store.tallies.remove(store.ref, 0, [3, 4])
    assert await store.tallies.settled(store.ref, 300) == 298
    assert await store.tallies.add(store.ref, 0, [3], 300) is False
    assert await store.tallies.add(store.ref, 0, [4], 300) is True


# ── dead letters and the journal ─────────────────────────────────────────────


async def redriven(store: Store) -> bool:
    letters = store.dead_letters
    return await letters.redriven(
        store.chunk, 2, next_gen=3, actor="me", reason="fixed"
    )


async def put_letter(store: Store, state: str) -> None:
    table, sk = store.letters.name, keys.dead_letter_sk(3, 2)
    await store.put(store.ref.pk, sk, table, letter_state=state, kind="dead-letter")


async def test_an_open_dead_letter_is_redriven_once(store: Store) -> None:
    await put_letter(store, "OPEN")
    assert await redriven(store) is True
    before = await store.everything()
    (letter,) = [row async for row in store.dead_letters.of_job(store.ref)]
    assert (letter["letter_state"], letter["redriven_as"]) == ("REDRIVEN", 3)
    store.now += 10
    assert await redriven(store) is False
    assert before == await store.everything()


async def test_a_dead_letter_that_is_not_there_is_not_made(store: Store) -> None:
    assert await redriven(store) is False
    assert [row async for row in store.dead_letters.of_job(store.ref)] == []
