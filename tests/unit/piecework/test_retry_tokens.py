"""Retries are a share of what succeeded lately, and a small process has some, too."""

from __future__ import annotations

import pytest

from piecework.retry_tokens import (
    A_SECOND,
    FLOOR,
    MEMORY_S,
    SPENT_CODE,
    START,
    RetryTokens,
    spent,
)


def taken(tokens: RetryTokens, now: float = 0.0) -> int:
    """Take what there is at one moment."""
    count = 0
    while tokens.take(now):
        count += 1
    return count


def test_a_process_without_a_success_may_try_a_few_times_again() -> None:
    assert int(START) == taken(RetryTokens())


def test_each_success_earns_a_share_of_a_retry() -> None:
    tokens = RetryTokens(0.0)
    for _ in range(11):
        tokens.succeeded(0.2, 0.0)
    assert 2 == taken(tokens)


def test_what_was_earned_is_forgotten_but_for_the_floor() -> None:
    tokens = RetryTokens(0.0)
    for _ in range(1000):
        tokens.succeeded(0.2, 0.0)
    tokens.succeeded(0.0, MEMORY_S)
    assert 74 == int(tokens.tokens)
    assert int(FLOOR) == taken(tokens, 100 * MEMORY_S)


def test_a_process_that_calls_seldom_has_a_retry_now_and_then() -> None:
    tokens = RetryTokens()
    taken(tokens, 100.0)
    assert 0 == taken(tokens, 100.0 + 0.5 / A_SECOND)
    assert 1 == taken(tokens, 100.0 + 1.1 / A_SECOND)
    assert 1 == taken(tokens, 1e9)


def test_a_clock_that_goes_back_takes_nothing_away() -> None:
    tokens = RetryTokens(FLOOR + 1)
    assert tokens.take(100.0)
    assert tokens.take(50.0)


def test_what_is_earned_follows_how_much_succeeds() -> None:
    tokens = RetryTokens(0.0)
    for tenth in range(3000):
        tokens.succeeded(0.2, tenth / 10)
    assert 20.0 == pytest.approx(tokens.tokens, abs=2.0)


def test_the_error_says_for_whom_and_what_the_other_side_asked_for() -> None:
    error = spent("model", 7.0)
    assert (SPENT_CODE, 7.0) == (error.code, error.retry_after)
    assert "model" == error.facts["dependency"]
