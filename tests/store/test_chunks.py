"""The writes on chunks without an owner."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from piecework.domain.chunk import Chunk
from piecework.domain.moments import iso
from piecework.domain.outcome import Cancelled, Released, Retry
from piecework.domain.protocols import CancelRequest
from piecework.domain.states import JobStatus
from piecework.store.cancellation import (
    cancel_unclaimed,
    request_cancel,
    request_compensation,
    set_direction,
)
from piecework.store.reopen import reopen_chunk
from piecework.store.settlements import Calls
from tests.store.conftest import NOW, SETTINGS, Store
from tests.store.table import Case
from tests.unit.piecework.fakes import envelope

ChunkWrite = Callable[[Store, Chunk], Awaitable[bool]]


async def release_expired(store: Store, seen: Chunk) -> bool:
    return await store.takeovers.release_expired(seen)


async def mark_redispatched(store: Store, seen: Chunk) -> bool:
    return await store.takeovers.mark_redispatched(seen)


async def cancel_chunk(store: Store, seen: Chunk) -> bool:
    return await cancel_unclaimed(store.table, seen, store.now)


async def request_to_cancel(store: Store, seen: Chunk) -> bool:
    return await request_cancel(store.table, seen, ASKED)


async def request_to_compensate(store: Store, seen: Chunk) -> bool:
    return await request_compensation(store.table, seen, ASKED, store.now + 90)


async def begin_compensation(store: Store, seen: Chunk) -> bool:
    return await set_direction(store.table, seen, envelope())


async def go_forward(store: Store, seen: Chunk) -> bool:
    return await set_direction(store.table, seen, None)


async def reopen(store: Store, seen: Chunk) -> bool:
    return await reopen_chunk(store.table, seen, 5)


ASKED = CancelRequest(iso(NOW), compensate=True)
RUNNING = {
    "status": "RUNNING",
    "fence": 4,
    "renewals": 7,
    "attempts": 1,
    "claimed_by": "other",
}
WAITING = {"status": "WAITING", "fence": 4}
DEAD = {"status": "DEAD", "fence": 4, "attempts": 3, "resume_at": "second"}

#: A write, the state it is for, and the status that it leaves.
CHUNK_WRITES: dict[str, tuple[ChunkWrite, dict[str, Any], str]] = {
    "give back": (release_expired, RUNNING, "WAITING"),
    "send again, pending": (mark_redispatched, {}, "PENDING"),
    "send again, waiting": (mark_redispatched, WAITING, "WAITING"),
    "cancel, pending": (cancel_chunk, {}, "CANCELLED"),
    "cancel, waiting": (cancel_chunk, WAITING, "CANCELLED"),
    "cancel, running": (cancel_chunk, RUNNING, "CANCELLED"),
    "ask to stop": (request_to_cancel, RUNNING, "RUNNING"),
    "ask to compensate, pending": (request_to_compensate, {"fence": 4}, "PENDING"),
    "ask to compensate, waiting": (request_to_compensate, WAITING, "WAITING"),
    "compensate, pending": (begin_compensation, {"fence": 4}, "WAITING"),
    "compensate, waiting": (begin_compensation, WAITING, "WAITING"),
    "run forward, waiting": (go_forward, WAITING, "WAITING"),
    "reopen, dead": (reopen, DEAD, "PENDING"),
    "reopen, cancelled": (reopen, DEAD | {"status": "CANCELLED"}, "PENDING"),
}
#: What may have changed since the look, and the writes that do not care.
SINCE: list[tuple[dict[str, Any], set[ChunkWrite]]] = [
    ({"status": "SUCCEEDED"}, set()),
    ({"gen": 3}, set()),
    ({"fence": 5}, {request_to_cancel, reopen}),
    (
        {"direction": "compensating"},
        {release_expired, mark_redispatched, request_to_cancel, reopen},
    ),
]
OFTEN = {request_to_cancel, request_to_compensate, mark_redispatched}


def case_of(name: str) -> Case:
    write, state, status = CHUNK_WRITES[name]

    async def before(store: Store) -> Chunk:
        await store.put_job(JobStatus.REOPENING, gen=5)
        return await store.put_chunk(**state)

    moved = [change for change, others in SINCE if write not in others]
    if write is release_expired or name.endswith(", running"):
        moved.append({"renewals": 8})
    owner = {} if write is request_to_cancel else {"claimed_by": None}
    return Case(
        name=name,
        before=before,
        act=write,
        left={"status": status, **owner},
        moved=moved,
        is_once=write not in OFTEN,
    )


CASES = [case_of(name) for name in CHUNK_WRITES]


async def test_a_chunk_with_a_result_is_never_reopened(store: Store) -> None:
    await store.put_job(JobStatus.REOPENING, gen=5)
    seen = await store.put_chunk(status="SUCCEEDED")
    assert await reopen(store, seen) is False


@pytest.mark.parametrize("write", [release_expired, cancel_chunk])
async def test_a_holder_that_was_given_up_does_not_take_that_for_its_own_end(
    store: Store, write: ChunkWrite
) -> None:
    claim = await store.running()
    assert await write(store, claim.chunk) is True
    with store.unchanged():
        retry = Retry(envelope(), 30.0)
        assert (
            await store.settlements.schedule_retry(claim, retry, calls=Calls(1))
            is False
        )
        assert (
            await store.settlements.release(claim, Released(), calls=Calls(1)) is False
        )
        assert (
            await store.settlements.cancel(
                claim, Cancelled("first"), resume_at=None, calls=Calls(1)
            )
            is False
        )


@pytest.mark.parametrize(
    ("facts", "attempts"),
    [
        ({}, 1),
        ({"takeovers": SETTINGS.max_takeovers - 1}, 1),
        ({"takeovers": SETTINGS.max_takeovers}, 2),
        ({"recoveries": 1}, 2),
    ],
)
async def test_an_expired_lease_spends_no_attempt_up_to_a_limit(
    store: Store, facts: dict[str, int], attempts: int
) -> None:
    state = RUNNING | {"attempts": 2} | facts
    await release_expired(store, await store.put_chunk(**state))
    item = await store.item()
    assert (item["attempts"], item["error_code"]) == (attempts, "runtime.worker.lost")
    assert item["takeovers"] == facts.get("takeovers", 0) + 1
    assert "retry_at" not in item


async def test_a_chunk_whose_lease_expired_is_soon_sent_again(store: Store) -> None:
    await release_expired(store, await store.put_chunk(**RUNNING))
    item = await store.item()
    assert iso(NOW + SETTINGS.lease_s / 3) == item["redispatch_at"]
    assert iso(NOW) == item["lease_released_at"]


@pytest.mark.parametrize(
    ("waited", "wait"),
    [(0.0, 20.0), (20.0, 20.0), (40.0, 40.0), (899.0, 899.0), (5_000.0, 900.0)],
)
async def test_the_resends_of_what_was_given_back_begin_with_a_third_of_a_lease(
    store: Store, waited: float, wait: float
) -> None:
    given_back = {"lease_released_at": iso(NOW - waited), "redispatches": 5}
    await mark_redispatched(
        store, await store.put_chunk(status="WAITING", **given_back)
    )
    assert (await store.item())["redispatch_at"] == iso(NOW + wait)


@pytest.mark.parametrize(
    ("redispatches", "wait"), [(None, 900), (1, 1800), (8, 900 * 256), (99, 900 * 256)]
)
async def test_each_resend_doubles_the_wait_for_the_next(
    store: Store, redispatches: int | None, wait: int
) -> None:
    await mark_redispatched(store, await store.put_chunk(redispatches=redispatches))
    item = await store.item()
    assert item["redispatch_at"] == iso(NOW + wait)
    assert item["redispatches"] == (redispatches or 0) + 1


async def test_a_resend_that_many_reconcilers_note_at_once_is_one(store: Store) -> None:
    seen = await store.put_chunk(redispatches=1)
    for _ in range(8):
        assert await mark_redispatched(store, seen)
    item = await store.item()
    assert (item["redispatch_at"], item["redispatches"]) == (iso(NOW + 1800), 2)


async def test_a_reopened_chunk_starts_at_its_first_incomplete_stage(
    store: Store,
) -> None:
    await store.put_job(JobStatus.REOPENING, gen=5)
    state = DEAD | {"stage": "third", "recoveries": 4, "calls_after_cancel": 2}
    state |= {"cancel_requested_at": iso(NOW), "compensate_requested": True}
    await reopen(store, await store.put_chunk(**state))
    item = await store.item()
    assert (item["gen"], item["attempts"], item["fence"]) == (5, 0, 4)
    assert (item["stage"], item["replays"]) == ("second", 1)
    gone = {"resume_at", "recoveries", "cancel_requested_at", "ended_at"}
    gone |= {"compensate_requested", "calls_after_cancel"}
    assert not gone & set(item)
