from __future__ import annotations

from math import inf
from typing import Any

import pytest

from piecework.domain.chunk import Chunk
from piecework.domain.refs import ChunkRef, JobRef
from piecework.reconciler.liveness import LeaseObserver, wait_s

REF = ChunkRef("acme", "job", 3)


def running(ref: ChunkRef = REF, **facts: Any) -> Chunk:
    item = {"status": "RUNNING", "gen": 1, "fence": 1, "renewals": 0, **facts}
    return Chunk.read(ref, item)


def test_the_first_sight_says_nothing() -> None:
    assert LeaseObserver().unchanged_for(running(), 1000.0) == 0.0


def test_a_chunk_that_stays_as_it_is_grows_old() -> None:
    seen = LeaseObserver()
    seen.unchanged_for(running(), 1000.0)
    assert seen.unchanged_for(running(), 1030.0) == 30.0
    assert seen.unchanged_for(running(), 1060.0) == 60.0


@pytest.mark.parametrize("change", [{"renewals": 1}, {"fence": 2}, {"gen": 2}])
def test_any_sign_of_life_begins_anew(change: dict[str, int]) -> None:
    seen = LeaseObserver()
    seen.unchanged_for(running(), 1000.0)
    assert seen.unchanged_for(running(**change), 1030.0) == 0.0
    assert seen.unchanged_for(running(**change), 1040.0) == 10.0


def test_what_else_changes_on_the_item_is_no_sign_of_life() -> None:
    seen = LeaseObserver()
    seen.unchanged_for(running(), 1000.0)
    assert seen.unchanged_for(running(redispatches=3), 1030.0) == 30.0


def test_chunks_are_watched_one_by_one() -> None:
    seen = LeaseObserver()
    seen.unchanged_for(running(), 1000.0)
    assert seen.unchanged_for(running(ChunkRef("acme", "job", 4)), 1030.0) == 0.0


def test_a_chunk_that_stopped_running_is_seen_anew_later() -> None:
    seen = LeaseObserver()
    seen.unchanged_for(running(), 1000.0)
    seen.forget_chunk(REF)
    assert seen.is_watching is False
    assert seen.unchanged_for(running(), 1030.0) == 0.0


def test_an_ended_job_is_forgotten_and_the_others_are_not() -> None:
    seen, other = LeaseObserver(), ChunkRef("acme", "other", 3)
    seen.unchanged_for(running(), 1000.0)
    seen.unchanged_for(running(other), 1000.0)
    seen.forget(JobRef("acme", "job"))
    assert seen.is_watching is True
    assert seen.unchanged_for(running(other), 1010.0) == 10.0
    assert seen.unchanged_for(running(), 1010.0) == 0.0


def test_losing_sight_of_what_was_never_seen_is_nothing() -> None:
    seen = LeaseObserver()
    seen.forget_chunk(REF)
    assert seen.is_watching is False


@pytest.mark.parametrize(
    ("unchanged_s", "left_s", "waits"),
    [
        (0, 60, 60),  # alive, as far as any process knows
        (20, 40, 40),
        (30, 0, 0),  # no change for half a lease, and over by the owner's clock
        (29, 0, 1),
        (0, 0, 5),  # over, but two clocks may differ
        (0, -4, 1),
        (0, -5, 0),
        (59, 1000, 1),  # the owner's clock is wrong; a whole lease without a change
        (60, 1000, 0),
        (0, inf, 60),  # a row without an end
    ],
)
def test_a_lease_is_over_by_sight_by_clock_or_by_half_of_both(
    unchanged_s: float, left_s: float, waits: float
) -> None:
    assert waits == wait_s(unchanged_s, left_s, lease_s=60, skew_s=5)
