from __future__ import annotations

import asyncio
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from piecework.domain.call_usage import CallUsage
from piecework.domain.chunk import Chunk
from piecework.domain.claim import (
    RECHECK_S,
    AlreadyEnded,
    AttemptsExhausted,
    Blocked,
    Busy,
    CancelPending,
    Claim,
    LeaseExpired,
    NotDue,
    NotFound,
    SchemaTooNew,
)
from piecework.domain.moments import iso
from piecework.domain.protocols import CancelRequest
from piecework.errors import StoreError
from piecework.store.claims import Lost, Renewed
from tests.store.conftest import NOW, Before, Deaf, Kept, Store, Stutter
from tests.store.writes import ENDS, Write, complete_paid, named

OTHERS = {"claim_token": "theirs", "claimed_by": "other", "renewals": 1}


def lease(left: float) -> dict[str, Any]:
    return {"status": "RUNNING", "claim_expires_at": iso(NOW + left), **OTHERS}


#: States in which a chunk may be claimed.
OPEN: dict[str, dict[str, Any]] = {
    "pending": {},
    "waiting": {"status": "WAITING"},
    "its wait is over": {"status": "WAITING", "retry_at": iso(NOW)},
    "to be cancelled, but compensating": {
        "cancel_requested_at": True,
        "direction": "compensating",
    },
}
#: What alone keeps it from being claimed, and what the refused one gets.
CLOSED: dict[str, tuple[dict[str, Any], type]] = {
    "begun by a newer version": ({"v": 2}, SchemaTooNew),
    "begun by a newer version, whose states we need not know": (
        {"v": 2, "status": "WAITING", "claim_expires_at": "soon"},
        SchemaTooNew,
    ),
    "of a later generation": ({"gen": 3}, AlreadyEnded),
    "of an earlier generation": ({"gen": 1}, Busy),
    "to be cancelled": ({"cancel_requested_at": True}, CancelPending),
    "succeeded": ({"status": "SUCCEEDED"}, AlreadyEnded),
    "dead": ({"status": "DEAD"}, AlreadyEnded),
    "cancelled": ({"status": "CANCELLED"}, AlreadyEnded),
    "succeeded, with an old lease left": (
        lease(-60) | {"status": "SUCCEEDED"},
        AlreadyEnded,
    ),
    "pending, not due": ({"retry_at": iso(NOW + 0.001)}, NotDue),
    "waiting, not due": ({"status": "WAITING", "retry_at": iso(NOW + 60)}, NotDue),
    "blocked by an earlier chunk": ({"blocked_by": 2}, Blocked),
    "its lease is valid": (lease(60), Busy),
    "its lease is to be released first": (lease(-5.001), LeaseExpired),
    "its lease is over, but not for longer than clocks differ": (lease(-5), Busy),
}


async def acquire(store: Store, attempts: int, gen: int = 2) -> Any:
    take = store.claims.acquire if attempts < 3 else store.claims.acquire_for_recovery
    last = (await store.item()).get("fence", 0)
    return await take(store.chunk, gen=gen, receive_count=4, last=last)


@pytest.mark.parametrize("attempts", [0, 2, 3])
@pytest.mark.parametrize("state", list(OPEN))
async def test_an_open_chunk_is_claimed(
    store: Store, state: str, attempts: int
) -> None:
    await store.put_chunk(fence=6, attempts=attempts, **OPEN[state])
    claim = await acquire(store, attempts)
    assert isinstance(claim, Claim)
    item = await store.item()
    assert (item["status"], item["fence"], claim.fence) == ("RUNNING", 7, 7)
    assert (item["claim_token"], item["claimed_by"]) == (claim.token, "worker")
    assert item["claim_expires_at"] == iso(NOW + 60)
    assert item["started_at"] == item["claimed_at"] == iso(NOW)
    assert (item["receive_count"], item["renewals"]) == (4, 0)
    assert "retry_at" not in item
    assert claim.chunk.item == item


async def test_an_attempt_is_counted_by_the_claim(store: Store) -> None:
    await store.put_chunk(attempts=1)
    claim = await acquire(store, 1)
    assert (claim.attempt, claim.recoveries, claim.is_recovery) == (2, 0, False)


async def test_a_recovery_claim_counts_no_attempt(store: Store) -> None:
    await store.put_chunk(attempts=3)
    claim = await acquire(store, 3)
    assert (claim.attempt, claim.recoveries, claim.is_recovery) == (3, 1, True)


@pytest.mark.parametrize("attempts", [0, 3])
@pytest.mark.parametrize("why", list(CLOSED))
async def test_a_closed_chunk_is_not_claimed_and_nothing_changes(
    store: Store, why: str, attempts: int
) -> None:
    facts, told = CLOSED[why]
    await store.put_chunk(**({"fence": 6, "attempts": attempts} | facts))
    with store.unchanged():
        assert isinstance(await acquire(store, attempts), told)


async def test_a_chunk_that_is_not_there_is_not_made(store: Store) -> None:
    assert await acquire(store, 0) == NotFound()
    assert await acquire(store, 3) == NotFound()
    assert await store.item() == {}


async def test_spent_attempts_are_not_spent_again(store: Store) -> None:
    await store.put_chunk(attempts=3)
    assert (AttemptsExhausted(0), {}) == await store.does(
        store.claims.acquire(store.chunk, gen=2, receive_count=1)
    )


async def test_a_chunk_with_attempts_left_has_no_recovery_claim(store: Store) -> None:
    await store.put_chunk(attempts=2)
    with store.unchanged():
        answer = await store.claims.acquire_for_recovery(
            store.chunk, gen=2, receive_count=1, last=0
        )
        assert answer == Busy(RECHECK_S)


@pytest.mark.parametrize("attempts", [0, 3])
async def test_a_claim_that_comes_once_more_after_its_end_takes_nothing(
    store: Store, attempts: int
) -> None:
    await store.put_chunk(attempts=attempts)
    late = Kept(store.client)
    store.client = late
    assert isinstance(await acquire(store, attempts), Claim)
    store.client = late.client
    await store.change(status="WAITING", attempts=attempts, claim_token=None)
    with store.unchanged(), pytest.raises(ClientError, match="ConditionalCheckFailed"):
        await late.once_more()


@pytest.mark.parametrize(("known", "requests"), [(0, 2), (6, 1)])
async def test_a_chunk_with_a_previous_claim_is_claimed_with_its_fence(
    store: Store, known: int, requests: int
) -> None:
    await store.put_chunk(status="WAITING", fence=6)
    store.client = sent = Kept(store.client)
    claim = await store.claims.acquire(store.chunk, gen=2, receive_count=4, last=known)
    assert isinstance(claim, Claim)
    assert (7, requests) == (claim.fence, sent.writes)


async def test_a_worker_that_always_loses_the_race_for_a_claim_retries_soon(
    store: Store,
) -> None:
    await store.put_chunk(fence=6)
    fences = iter((8, 10))

    async def overtake() -> None:
        await store.change(fence=next(fences))
        store.client.left = 1

    store.client = Before(store.client, 1, overtake)
    assert Busy(RECHECK_S) == await acquire(store, 0)


@pytest.mark.parametrize("attempts", [0, 3])
async def test_of_many_claimers_one_wins(store: Store, attempts: int) -> None:
    await store.put_chunk(attempts=attempts)
    answers = await asyncio.gather(*(acquire(store, attempts) for _ in range(32)))
    won = [answer for answer in answers if isinstance(answer, Claim)]
    lost = [answer for answer in answers if isinstance(answer, Busy)]
    assert (len(won), len(lost)) == (1, 31)
    item = await store.item()
    assert (item["fence"], item["claim_token"]) == (1, won[0].token)


@pytest.mark.parametrize("attempts", [1, 3])
async def test_a_claim_whose_answer_was_lost_is_owned_and_counted_once(
    store: Store, attempts: int
) -> None:
    await store.put_chunk(attempts=attempts, fence=6)
    store.client = Stutter(store.client)
    claim = await acquire(store, attempts)
    assert isinstance(claim, Claim)
    assert store.client.sent == 1
    assert claim.fence == 7
    assert (claim.attempt, claim.recoveries) == ((2, 0) if attempts < 3 else (3, 1))


async def test_a_claim_without_an_answer_keeps_others_busy(store: Store) -> None:
    await store.put_chunk()
    store.client = Deaf(store.client, EndpointConnectionError(endpoint_url="x"))
    with pytest.raises(StoreError):
        await acquire(store, 0)
    assert isinstance(await acquire(store, 0), Busy)


# ── renewal ──────────────────────────────────────────────────────────────────

#: Each changes one word of who we think we are.
NOT_OURS: dict[str, dict[str, Any]] = {
    "status": {"status": "PENDING"},
    "gen": {"gen": 3},
    "fence": {"fence": 5},
    "token": {"claim_token": "theirs"},
}


async def test_a_renewal_extends_the_lease_from_now(store: Store) -> None:
    claim = await store.running()
    store.now += 20
    assert await store.claims.renew(claim, 7) == Renewed(8)
    item = await store.item()
    assert item["claim_expires_at"] == iso(NOW + 80)
    assert item["renewals"] == 8


async def test_a_renewal_returns_the_cancel_request(store: Store) -> None:
    claim = await store.running(cancel_requested_at=iso(NOW))
    asked = CancelRequest(iso(NOW), compensate=False)
    assert await store.claims.renew(claim, 7) == Renewed(8, asked)


@pytest.mark.parametrize(("renewals", "later"), [(6, 20), (7, 0)])
@pytest.mark.parametrize("word", list(NOT_OURS))
async def test_the_lease_of_another_claim_is_not_renewed(
    store: Store, word: str, renewals: int, later: float
) -> None:
    claim = await store.running()
    await store.change(**NOT_OURS[word])
    with store.unchanged():
        store.now += later
        assert await store.claims.renew(claim, renewals) == Lost()


async def test_a_lease_of_a_chunk_that_is_gone_is_not_renewed(store: Store) -> None:
    claim = await store.running()
    await store.drop()
    assert await store.claims.renew(claim, 7) == Lost()
    assert await store.item() == {}


async def test_a_renewal_that_comes_once_more_after_the_next_cuts_no_lease(
    store: Store,
) -> None:
    claim = await store.running()
    late = Kept(store.client)
    store.client = late
    assert await store.claims.renew(claim, 7) == Renewed(8)
    store.client, store.now = late.client, NOW + 20
    assert await store.claims.renew(claim, 8) == Renewed(9)
    with store.unchanged(), pytest.raises(ClientError, match="ConditionalCheckFailed"):
        await late.once_more()


@pytest.mark.parametrize("asked", [None, CancelRequest(iso(NOW), compensate=True)])
async def test_a_renewal_whose_answer_was_lost_is_owned_and_counted_once(
    store: Store, asked: CancelRequest | None
) -> None:
    cancel = (
        {"cancel_requested_at": asked.at, "compensate_requested": True} if asked else {}
    )
    claim = await store.running(**cancel)
    store.client = Stutter(store.client)
    store.now += 20
    assert await store.claims.renew(claim, 7) == Renewed(8, asked)
    assert store.client.sent == 1


async def test_a_renewal_follows_one_without_an_answer(store: Store) -> None:
    claim = await store.running()
    client = store.client
    store.client = Deaf(client, EndpointConnectionError(endpoint_url="x"))
    with pytest.raises(StoreError):
        await store.claims.renew(claim, 7)
    store.client, store.now = client, NOW + 20
    assert await store.claims.renew(claim, 7) == Renewed(9)
    assert (await store.item())["claim_expires_at"] == iso(NOW + 80)


async def test_a_claim_that_has_ended_is_not_renewed(store: Store) -> None:
    claim = await store.running()
    await store.change(status="WAITING")  # its token stays, and here its lease, too
    assert await store.claims.renew(claim, 6) == Lost()


async def test_another_claim_of_the_same_worker_does_not_renew_the_lease(
    store: Store,
) -> None:
    claim = await store.running()
    theirs = {"fence": 5, "claim_token": "theirs", "renewals": 9}
    await store.change(**theirs, claim_expires_at=iso(NOW + 60))
    assert await store.claims.renew(claim, 7) == Lost()


@pytest.mark.parametrize("spoiled", ["many", None])
async def test_a_malformed_renewal_count_ends_the_claim(
    store: Store, spoiled: str | None
) -> None:
    claim = await store.running()
    await store.change(renewals=spoiled)
    assert await store.claims.renew(claim, 7) == Lost()


async def claims_and_renews(store: Store) -> Claim:
    """Lay a chunk down whose claim has renewed its lease after its first call."""
    earlier = CallUsage({"paid": {"m": [2, 90]}})
    claim = await store.running(call_usage=earlier.item)
    used = CallUsage({"paid": {"m": [1, 10, 5, 7]}, "cached": {"m": [3, 0, 0, 0]}})
    assert await store.claims.renew(claim, 7, used) == Renewed(8)
    return claim


async def test_a_renewal_tells_readers_what_the_calls_of_the_claim_used(
    store: Store,
) -> None:
    await claims_and_renews(store)
    chunk = Chunk.read(store.chunk, await store.item())
    paid = {"calls": 3, "tokens_in": 100, "tokens_out": 5, "nano_usd": 7}
    assert chunk.usage_so_far.total("paid") == paid
    assert chunk.claim_usage.total("cached")["calls"] == 3


async def test_a_renewal_without_a_call_writes_no_usage(store: Store) -> None:
    await store.claims.renew(await store.running(), 7, CallUsage())
    assert "claim_usage" not in await store.item()


@named(ENDS)
async def test_no_end_of_a_claim_leaves_its_usage_to_be_counted_twice(
    store: Store, write: Write
) -> None:
    await write(store, await claims_and_renews(store))
    assert "claim_usage" not in await store.item()


async def test_the_end_of_a_stage_keeps_what_lost_claims_used(store: Store) -> None:
    lost, settled = {"paid": {"m": [3]}}, {"paid": {"m": [1]}}
    usage = {"1": settled, "2": lost}
    claim = await store.running(lost_fences={2}, stages_usage=usage)
    await complete_paid(store, claim)
    kept = (await store.item())["stages_usage"]
    assert {"2": lost, "4": {"paid": {"m": [2, 90]}}} == kept


async def test_a_lost_claim_leaves_its_usage_to_its_journal(store: Store) -> None:
    await claims_and_renews(store)
    store.now += 600
    lost = Chunk.read(store.chunk, await store.item())
    assert await store.takeovers.release_expired(lost)
    assert "claim_usage" not in await store.item()
