"""Guarantee: what a call and a batch do next follows from their rows and the time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

import pytest

from piecework.domain.batch import (
    MOST_JOBS,
    MOST_MEMBERS,
    Asked,
    Member,
    PlannedRow,
    pack_members,
)
from piecework.resilience.batching import (
    GRACE_S,
    Answer,
    Ask,
    GoDirect,
    Step,
    Take,
    WaitOn,
    gather,
    is_too_late,
    may_create_again,
    must_leave,
    next_step,
    poll_after_s,
    usual_s,
)
from piecework.resilience.lanes import Lane

LANE = Lane.batch(within="2h", at_least=10, gather="5m")
HOUR = 3600.0
DUE = 2 * HOUR + GRACE_S


def asked(**facts: Any) -> Asked:
    return Asked(**{"fence": 3, "gen": 1, "since": 0.0, "due": DUE, **facts})


OVER = {"is_open": False}
FAILED = {**OVER, "failed": {"code": "x"}}


@pytest.mark.parametrize(
    ("answer", "last", "refused", "now", "step"),
    [
        (None, None, 0, 5.0, Ask(5.0)),
        (None, asked(), 0, 100.0, WaitOn(1000.0)),  # it looks again in 15 minutes
        (None, asked(), 0, DUE - 1, WaitOn(DUE)),
        (None, asked(), 0, DUE, GoDirect(DUE)),  # no collector has closed it
        (Answer("1", 3), asked(**OVER), 0, 9.0, Take("1", 3)),
        (Answer("1", 3), asked(), 0, 9.0, Take("1", 3)),  # others are still open
        (None, asked(**FAILED), 0, 9.0, Take({"code": "x"}, 3)),
        # The stage has failed by it: its next attempt goes direct, a redrive asks anew.
        (Answer("1", 3), asked(**OVER), 3, 9.0, GoDirect(9.0)),
        (None, asked(**FAILED), 3, 9.0, GoDirect(9.0)),
        (Answer("1", 3), asked(gen=0, **OVER), 3, 9.0, Ask(9.0)),
        # Expired, absent, or refused with its batch.
        (None, asked(**OVER), 0, HOUR, Ask(0.0, 2)),
        (None, asked(**OVER), 0, HOUR + 1, GoDirect(HOUR + 1)),
        (None, asked(tries=2, **OVER), 0, 9.0, GoDirect(9.0)),
        (None, asked(goes_direct=True, **OVER), 0, 9.0, GoDirect(9.0)),
        # A redrive: what is open may still answer; what failed is asked for anew.
        (None, asked(gen=0), 0, 100.0, WaitOn(1000.0)),
        (None, asked(gen=0, **FAILED), 0, 9.0, Ask(9.0)),
    ],
)
def test_a_call_takes_asks_waits_or_goes_direct(
    answer: Answer | None, last: Asked | None, refused: int, now: float, step: Step
) -> None:
    assert next_step(LANE, answer, last, refused=refused, gen=1, now=now) == step


@dataclass(frozen=True)
class Gathered:
    """A gathered request."""

    at: float
    rows: int = 4
    size: int = 100
    until: float = 7200.0
    job: str = "job"


@dataclass(frozen=True)
class Limits:
    """The limits of a provider."""

    most_rows: int = 12
    most_bytes: int = 10_000
    least_rows: int = 1


def test_the_row_of_the_largest_batch_is_written_and_read() -> None:
    limits, jobs = Limits(most_rows=1_000_000, most_bytes=10**9), MOST_JOBS
    found = [
        Gathered(at=1.0, job=sha256(f"{n % jobs}".encode()).hexdigest())
        for n in range(2 * MOST_MEMBERS + 1)
    ]
    lane = Lane.batch(within=7200, at_least=1, gather=0)
    sizes = [len(each) for each in gather(found, lane, limits, now=2.0).batches]
    assert sizes == [MOST_MEMBERS, MOST_MEMBERS, 1]
    alone = [replace(each, job=str(n)) for n, each in enumerate(found[: jobs + 1])]
    sizes = [len(each) for each in gather(alone, lane, limits, now=2.0).batches]
    assert sizes == [jobs, 1]
    members = [
        Member(each.job, n, 1, 10_000 + n, 1, 4, n * 7_919, n * 104_729)
        for n, each in enumerate(found[:MOST_MEMBERS])
    ]
    packed = pack_members(members)
    assert len(packed) < 390_000
    read = PlannedRow({"members": packed}).members
    assert sorted(read, key=lambda m: m.chunk) == members


def test_the_last_batch_is_kept_while_others_are_to_be_read() -> None:
    found = [Gathered(at=float(n)) for n in range(8)]  # 4 rows each, 12 a batch
    lane = Lane.batch(within=7200, at_least=12, gather=60)
    kept = gather(found, lane, Limits(), now=100.0, more=True)
    assert [len(batch) for batch in kept.batches] == [3, 3]
    assert (len(kept.rest), kept.direct, kept.next_at) == (2, [], None)
    last = gather(found, lane, Limits(), now=100.0)
    assert (len(last.batches), len(last.direct), last.rest) == (2, 2, [])


def test_requests_are_gathered_from_the_first_one_on() -> None:
    found = [Gathered(0.0), Gathered(299.0), Gathered(1.0)]
    early = gather(found, LANE, Limits(), 299.0)
    assert (early.batches, early.direct, early.next_at) == ([], [], 300.0)
    ready = gather(found, LANE, Limits(), 300.0)
    assert [[each.at for each in batch] for batch in ready.batches] == [
        [0.0, 1.0, 299.0]
    ]
    assert (ready.direct, ready.next_at) == ([], None)
    few = gather(found[:1], LANE, Limits(), 300.0)
    assert (few.batches, few.direct, few.next_at) == ([], found[:1], None)
    nothing = gather([], LANE, Limits(), 300.0)
    assert (nothing.batches, nothing.direct, nothing.next_at) == ([], [], None)


@pytest.mark.parametrize(
    ("limits", "batches"),
    [
        (Limits(), [3, 3]),
        (Limits(most_bytes=399), [3, 3]),
        (Limits(most_rows=20), [5, 1]),  # the rest of 4 rows is too small
        (Limits(most_rows=24), [6]),
        (Limits(least_rows=13), [3, 3]),
    ],
)
def test_batches_keep_within_the_limits_and_small_ones_go_direct(
    limits: Limits, batches: list[int]
) -> None:
    found = [Gathered(float(n)) for n in range(6)]
    made = gather(found, LANE, limits, 400.0)
    small = [n for n in batches if n * 4 < max(10, limits.least_rows)]
    assert [len(batch) for batch in made.batches] == [
        n for n in batches if n not in small
    ]
    assert len(made.direct) == sum(small)


def test_a_batch_is_asked_for_ever_more_rarely() -> None:
    assert [poll_after_s(n) / 60 for n in range(7)] == [1, 2, 4, 8, 15, 15, 15]
    assert poll_after_s(10_000) == 900


def test_the_usual_time_of_a_batch_is_that_of_95_in_100() -> None:
    assert usual_s([]) == HOUR
    assert usual_s([float(n) for n in range(20)]) == 19.0


@pytest.mark.parametrize(
    ("deadline", "took", "late"),
    [(None, [9.0], False), (100.0, [9.0], False), (8.0, [9.0], True)],
)
def test_a_job_that_ends_before_its_batch_goes_direct(
    deadline: float | None, took: list[float], *, late: bool
) -> None:
    assert is_too_late(deadline, took, 0.0) is late


@pytest.mark.parametrize(
    ("deadline", "now", "leaves"),
    [
        (None, 0.0, False),
        (7200.0, 0.0, False),
        (3000.0, 0.0, True),  # it is likely to end after an hour
        (5000.0, 4099.0, False),  # it is late, and direct calls still have time
        (5000.0, 4101.0, True),
    ],
)
def test_a_batch_is_cancelled_while_its_calls_can_still_go_direct(
    deadline: float | None, now: float, *, leaves: bool
) -> None:
    assert must_leave(deadline, 0.0, [HOUR], now) is leaves


def test_a_creation_is_repeated_once_its_provider_must_know_it() -> None:
    assert not may_create_again(0.0, 59.0, finds_exactly=True)
    assert may_create_again(0.0, 60.0, finds_exactly=True)
    assert not may_create_again(0.0, 599.0, finds_exactly=False)
    assert may_create_again(0.0, 600.0, finds_exactly=False)
