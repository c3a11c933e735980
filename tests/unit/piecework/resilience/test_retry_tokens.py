"""Retries are a share of the recent successes, with a few for rare callers."""

from __future__ import annotations

import pytest

from piecework.errors import ErrorClass
from piecework.resilience.retry import (
    BUDGET_CODE,
    DECAY_S,
    FLOOR_TOKENS,
    FLOOR_TOKENS_PER_S,
    START_TOKENS,
    RetryTokenBucket,
    budget_exhausted_error,
)
from tests.unit.piecework.fakes import envelope


def taken(tokens: RetryTokenBucket, now: float = 0.0) -> int:
    """Take what there is at one moment."""
    count = 0
    while tokens.take(now):
        count += 1
    return count


def test_a_process_without_a_success_may_try_a_few_times_again() -> None:
    assert int(START_TOKENS) == taken(RetryTokenBucket())


def test_each_success_earns_a_share_of_a_retry() -> None:
    tokens = RetryTokenBucket(0.0)
    for _ in range(11):
        tokens.add_success(0.2, 0.0)
    assert 2 == taken(tokens)


def test_what_was_earned_is_forgotten_but_for_the_floor() -> None:
    tokens = RetryTokenBucket(0.0)
    for _ in range(1000):
        tokens.add_success(0.2, 0.0)
    tokens.add_success(0.0, DECAY_S)
    assert 74 == int(tokens.tokens)
    assert int(FLOOR_TOKENS) == taken(tokens, 100 * DECAY_S)


def test_a_process_that_calls_seldom_has_a_retry_now_and_then() -> None:
    tokens = RetryTokenBucket()
    taken(tokens, 100.0)
    assert 0 == taken(tokens, 100.0 + 0.5 / FLOOR_TOKENS_PER_S)
    assert 1 == taken(tokens, 100.0 + 1.1 / FLOOR_TOKENS_PER_S)
    assert 1 == taken(tokens, 1e9)


def test_a_clock_that_goes_back_takes_nothing_away() -> None:
    tokens = RetryTokenBucket(FLOOR_TOKENS + 1)
    assert tokens.take(100.0)
    assert tokens.take(50.0)


def test_what_is_earned_follows_how_much_succeeds() -> None:
    tokens = RetryTokenBucket(0.0)
    for tenth in range(3000):
        tokens.add_success(0.2, tenth / 10)
    assert 20.0 == pytest.approx(tokens.tokens, abs=2.0)


def test_the_error_says_for_whom_and_what_the_other_side_asked_for() -> None:
    last = envelope(
        ErrorClass.TRANSIENT, code="tool.connection.failed", retry_after=7.0
    )
    error = budget_exhausted_error("model", last)
    assert "for model" in error.message
    assert "the last with tool.connection.failed" in error.message
    assert (BUDGET_CODE, 7.0) == (error.code, error.retry_after)
    assert "model" == error.facts["dependency"]
