from __future__ import annotations

from itertools import product
from random import Random
from typing import Any

import pytest

from piecework.domain.moments import iso
from piecework.domain.outcome import (
    MAX_BUDGET_DEFERRALS,
    CompensationResult,
    DeadLettered,
    Deferred,
    Retry,
)
from piecework.errors import ErrorEnvelope
from piecework.errors.classify_http import retry_after
from piecework.errors.codes import ErrorClass
from piecework.resilience.breaker import OPEN_CODE, PROBE_RETRY_S
from piecework.resilience.limits import QUOTA_CODE
from piecework.resilience.retry import BUDGET_CODE, IN_PROGRESS_CODE
from piecework.saga import recovery
from piecework.saga.recovery import Compensate, Decision, PivotPosition
from tests.unit.piecework.fakes import Highest, Lowest, envelope

COMES_BACK = {ErrorClass.TRANSIENT, ErrorClass.STATE}
DEAD = {
    PivotPosition.IN_DOUBT: CompensationResult.PIVOT_UNKNOWN,
    PivotPosition.BEHIND: CompensationResult.PAST_PIVOT,
}


def decided(
    failure: ErrorEnvelope, pivot: PivotPosition, attempts_left: int
) -> Decision:
    return recovery.decide(
        failure,
        attempts_left=attempts_left,
        attempt=1,
        pivot=pivot,
        rng=Highest(),
    )


@pytest.mark.parametrize(
    ("error_class", "pivot", "left"),
    list(product(ErrorClass, PivotPosition, [2, 1, 0, -1])),
)
def test_the_whole_table(
    error_class: ErrorClass, pivot: PivotPosition, left: int
) -> None:
    failure, expected = envelope(error_class), Compensate()
    if error_class in COMES_BACK and left > 0:
        expected = Retry(failure, 4.0)
    elif pivot in DEAD:
        expected = DeadLettered(failure, DEAD[pivot])
    assert expected == decided(failure, pivot, left)


@pytest.mark.parametrize(
    ("attempt", "ceiling"), [(1, 4.0), (2, 8.0), (3, 16.0), (7, 256.0), (8, 300.0)]
)
def test_the_wait_doubles_up_to_the_cap(attempt: int, ceiling: float) -> None:
    assert ceiling == recovery.backoff(envelope(), attempt, Highest())


def test_the_wait_may_be_nothing() -> None:
    assert recovery.backoff(envelope(), 3, Lowest()) == 0.0


def test_jitter_is_added_to_the_requested_delay() -> None:
    asked = envelope(retry_after=17.0)
    assert recovery.backoff(asked, 1, Lowest()) == 17.0
    assert recovery.backoff(asked, 1, Highest()) == 21.0


@pytest.mark.parametrize("said", ["999999999", "Fri, 31 Dec 9999 23:59:59 GMT"])
@pytest.mark.parametrize("code", [OPEN_CODE, BUDGET_CODE])
def test_a_requested_delay_is_at_most_a_day(said: str, code: str) -> None:
    now = 1_790_000_000.0
    seconds = retry_after({"Retry-After": said}, now)
    failure = envelope(code=code, retry_after=seconds)
    jitter = 0.5 * recovery.RETRY_AFTER_CAP

    for wait in (
        recovery.backoff(failure, 9, Highest()),
        recovery.deferral_delay(failure, 9, 1, Highest()),
    ):
        assert recovery.RETRY_AFTER_CAP <= wait <= recovery.RETRY_AFTER_CAP + jitter
        assert iso(now + wait) < "2027"


@pytest.mark.parametrize("said", [-5.0, float("-inf"), float("nan")])
def test_a_negative_or_missing_delay_is_zero(said: float) -> None:
    assert 0.0 == recovery.backoff(envelope(retry_after=said), 1, Lowest())


@pytest.mark.parametrize(
    ("code", "deferrals", "expected"),
    [
        (OPEN_CODE, 0, "bank"),
        (OPEN_CODE, 1_000, "bank"),
        (QUOTA_CODE, 1_000, "bank"),
        (IN_PROGRESS_CODE, 1_000, "bank"),
        (BUDGET_CODE, 0, "bank"),
        (BUDGET_CODE, MAX_BUDGET_DEFERRALS - 1, "bank"),
        (BUDGET_CODE, MAX_BUDGET_DEFERRALS, ""),
    ],
)
def test_a_deferred_chunk_spends_no_attempt_up_to_the_limit(
    code: str, deferrals: int, expected: str
) -> None:
    failure = envelope(ErrorClass.TRANSIENT, code=code, dependency="bank")
    rules: dict[str, Any] = {
        "attempt": 1,
        "pivot": PivotPosition.AHEAD,
        "rng": Lowest(),
    }
    rules |= {"deferrals": 1_000, "budget_deferrals": deferrals}
    some = recovery.decide(failure, attempts_left=1, **rules)
    none = recovery.decide(failure, attempts_left=0, **rules)
    assert expected == getattr(some, "blocked_on", "")
    assert none == (some if expected else Compensate())


def test_two_chunks_that_fail_together_do_not_come_back_together() -> None:
    rng = Random(3)
    assert recovery.backoff(envelope(), 3, rng) != recovery.backoff(envelope(), 3, rng)


def test_many_attempts_wait_no_longer_than_the_cap() -> None:
    assert recovery.backoff(envelope(), 100, Highest()) == 300.0


@pytest.mark.parametrize("pivot", list(PivotPosition))
@pytest.mark.parametrize("left", [2, 0])
def test_a_chunk_waits_for_its_dependency_however_often_it_has_to(
    pivot: PivotPosition, left: int
) -> None:
    refused = envelope(
        ErrorClass.TRANSIENT, code=OPEN_CODE, retry_after=20.0, dependency="model"
    )
    decision = recovery.decide(
        refused, attempts_left=left, attempt=3, pivot=pivot, rng=Highest()
    )
    assert Deferred(refused, 30.0, "model") == decision


def test_chunks_blocked_on_one_breaker_are_spread_out() -> None:
    refused = envelope(ErrorClass.TRANSIENT, code=OPEN_CODE, retry_after=1.0)
    assert 1.0 == recovery.deferral_delay(refused, 1, 4, Lowest())
    assert 1.0 + PROBE_RETRY_S == recovery.deferral_delay(refused, 1, 4, Highest())
    assert 31.0 == recovery.deferral_delay(refused, 1, 5_000, Highest())


def test_other_chunks_return_before_a_chunk_whose_probe_failed() -> None:
    refused = envelope(ErrorClass.TRANSIENT, code=OPEN_CODE, retry_after=20.0)
    last = recovery.deferral_delay(refused, 1, 0, Highest())
    assert last == recovery.deferral_delay(refused, 1, 0, Lowest(), probed=True)


def test_a_call_without_a_retry_left_waits_longer_each_time() -> None:
    spent = envelope(ErrorClass.TRANSIENT, code=BUDGET_CODE, retry_after=3.0)
    assert 7.0 == recovery.deferral_delay(spent, 1, 0, Highest())
    assert 19.0 == recovery.deferral_delay(spent, 1, 2, Highest())
    assert 33.0 == recovery.deferral_delay(spent, 1, 9, Highest())
    assert 33.0 == recovery.deferral_delay(spent, 1, 5_000, Highest())


def test_a_stage_that_only_says_that_a_breaker_is_open_is_believed_but_counted() -> (
    None
):
    said = envelope(ErrorClass.TRANSIENT, code=OPEN_CODE)
    decision = recovery.decide(
        said, attempts_left=0, attempt=3, pivot=PivotPosition.AHEAD, rng=Highest()
    )
    assert Compensate() == decision
