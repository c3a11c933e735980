from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from piecework.domain.chunk import Chunk
from piecework.domain.claim import (
    RECHECK_S,
    AlreadyEnded,
    AttemptsExhausted,
    Blocked,
    Busy,
    CancelPending,
    Claim,
    FenceMismatch,
    LeaseExpired,
    NotDue,
    NotFound,
    Refusal,
    SchemaTooNew,
    explain_refusal,
)
from piecework.domain.moments import iso
from piecework.domain.refs import ChunkRef
from piecework.domain.schema import SCHEMA
from piecework.domain.states import ChunkStatus

REF = ChunkRef("acme", "job", 3)
NOW = 1_700_000_000.0
SKEW = 5.0
GEN = 2


def item(status: str = "PENDING", **facts: Any) -> dict[str, Any]:
    return {"status": status, "gen": GEN, "fence": 1, "attempts": 0, **facts}


def running(left: float, **facts: Any) -> dict[str, Any]:
    """An item whose lease ends so many seconds from now."""
    return item("RUNNING", claim_expires_at=iso(NOW + left), **facts)


def judged(found: dict[str, Any] | None, gen: int = GEN) -> Refusal | FenceMismatch:
    return explain_refusal(REF, found, gen=gen, now=NOW, skew=SKEW, max_attempts=3)


def ended(found: dict[str, Any]) -> AlreadyEnded:
    return AlreadyEnded(Chunk.read(REF, found))


def expired(found: dict[str, Any]) -> LeaseExpired:
    return LeaseExpired(Chunk.read(REF, found))


def cancelling(found: dict[str, Any]) -> CancelPending:
    return CancelPending(Chunk.read(REF, found))


def test_without_an_item_the_chunk_is_not_found() -> None:
    assert NotFound() == judged(None)


@pytest.mark.parametrize("status", ["SUCCEEDED", "DEAD", "CANCELLED"])
def test_an_ended_chunk_has_already_ended(status: str) -> None:
    assert ended(item(status)) == judged(item(status))


@pytest.mark.parametrize("status", list(ChunkStatus))
def test_a_message_of_an_earlier_generation_has_already_ended(status: str) -> None:
    found = item(status, gen=GEN + 1)
    assert ended(found) == judged(found)


@pytest.mark.parametrize("status", list(ChunkStatus))
def test_a_message_of_a_later_generation_waits(status: str) -> None:
    assert Busy(RECHECK_S) == judged(item(status, gen=GEN - 1))


def test_a_living_lease_is_busy_for_its_rest_plus_the_skew() -> None:
    assert Busy(25.0) == judged(running(20.0))


@pytest.mark.parametrize(
    ("left", "wait"),
    [(0.0, 5.0), (-4.0, 1.0), (-4.75, 0.25), (-5.0, 0.0), (20.0, 25.0)],
)
def test_an_expired_lease_is_busy_for_the_skew(left: float, wait: float) -> None:
    assert Busy(wait) == judged(running(left))


@pytest.mark.parametrize("left", [-5.001, -5.25, -600.0])
def test_a_lease_expired_for_longer_than_the_skew_is_released_first(
    left: float,
) -> None:
    assert expired(running(left)) == judged(running(left))


@pytest.mark.parametrize("status", list(ChunkStatus))
def test_a_newer_schema_comes_before_all_else(status: str) -> None:
    assert SchemaTooNew() == judged(item(status, v=SCHEMA + 1, gen=GEN + 1))


def test_a_blocked_chunk_waits_for_no_time_and_spends_no_attempt() -> None:
    found = item(blocked_by=2, retry_at=iso(NOW + 60), attempts=3)
    assert Blocked() == judged(found)


def test_a_living_lease_comes_before_a_cancel() -> None:
    found = running(20.0, cancel_requested_at=True)
    assert Busy(25.0) == judged(found)


@pytest.mark.parametrize("status", ["PENDING", "WAITING"])
def test_a_cancelled_chunk_without_a_lease_is_cancel_pending(status: str) -> None:
    found = item(status, cancel_requested_at=True)
    assert cancelling(found) == judged(found)


def test_an_expired_lease_is_released_before_a_cancel() -> None:
    found = running(-6.0, cancel_requested_at=True)
    assert expired(found) == judged(found)


def test_a_cancel_does_not_wait_for_the_retry() -> None:
    found = item("WAITING", cancel_requested_at=True, retry_at=iso(NOW + 60))
    assert cancelling(found) == judged(found)


def test_an_ended_chunk_is_not_cancelled() -> None:
    found = item("SUCCEEDED", cancel_requested_at=True)
    assert ended(found) == judged(found)


def test_a_retry_that_is_not_due_waits() -> None:
    assert NotDue(60.0) == judged(item("WAITING", retry_at=iso(NOW + 60)))


def test_a_retry_that_is_due_is_free() -> None:
    assert FenceMismatch(4) == judged(item("WAITING", fence=4, retry_at=iso(NOW)))


@pytest.mark.parametrize("attempts", [3, 4])
def test_exhausted_attempts_need_recovery(attempts: int) -> None:
    assert AttemptsExhausted(4) == judged(item("WAITING", fence=4, attempts=attempts))


def test_exhausted_attempts_wait_for_the_lease_and_the_retry() -> None:
    assert Busy(25.0) == judged(running(20.0, attempts=3))
    found = item("WAITING", attempts=3, retry_at=iso(NOW + 60))
    assert NotDue(60.0) == judged(found)


def test_one_attempt_left_is_not_exhausted() -> None:
    assert FenceMismatch(4) == judged(item("WAITING", fence=4, attempts=2))


def test_a_refusal_without_another_reason_is_for_its_fence() -> None:
    assert FenceMismatch(4) == judged(item(fence=4))


def claim(**facts: Any) -> Claim:
    found = item("RUNNING", **facts)
    chunk = Chunk.read(REF, found)
    return Claim(REF, GEN, chunk.fence, "token", "worker", chunk)


@pytest.mark.parametrize(
    ("gen", "fence", "first"), [(1, 1, True), (1, 2, False), (2, 1, False)]
)
def test_only_the_first_fence_of_the_first_generation_is_a_first_claim(
    *, gen: int, fence: int, first: bool
) -> None:
    # A join is laid down anew for each generation; its calls and effects stay.
    assert replace(claim(fence=fence), gen=gen).is_first is first


def test_a_claim_counts_its_attempts_and_its_recoveries() -> None:
    assert claim(attempts=2).attempt == 2
    assert claim(attempts=2).recoveries == 0
    assert claim(recoveries=4).recoveries == 4
