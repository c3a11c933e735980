"""No minute holds more starts than the limit, whatever a fleet does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from piecework import Dependency
from piecework.domain.moments import MICROS
from piecework.errors import PermanentError, UsageError
from piecework.resilience.limits import (
    AHEAD,
    CLOCK_DIFFERENCE_S,
    LATEST_S,
    TOO_LARGE_CODE,
    Limits,
    Quota,
    Start,
    plan_starts,
    require_possible,
)

NOW = 1_700_000_000 * MICROS
MINUTE = 60 * MICROS
LIMITS = [
    "requests_per_minute",
    "tokens_per_minute",
    "concurrent",
    "requests_per_second",
]
#: What one worker does: its clock's error, the time until then and its calls' tokens.
#: Also how late it uses each start, and whether another worker writes between.
TURNS = st.lists(
    st.tuples(
        st.floats(-CLOCK_DIFFERENCE_S / 2, CLOCK_DIFFERENCE_S / 2),
        st.integers(0, 3 * MICROS),
        st.lists(st.integers(0, 50), max_size=60),
        st.integers(0, round(LATEST_S * MICROS) - 1),
        st.booleans(),
    ),
    max_size=40,
)


def most_in_a_minute(starts: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """Return the most starts, and the most tokens, in any 60 seconds."""
    windows = [
        [tokens for at, tokens in starts if begin <= at < begin + MINUTE]
        for begin, _ in starts
    ]
    return max(map(len, windows), default=0), max(map(sum, windows), default=0)


@given(
    turns=TURNS,
    requests=st.integers(1, 300),
    tokens=st.none() | st.integers(50, 3_000),
    operator=st.none() | st.integers(1, 300),
)
def test_no_minute_is_above_the_limit_for_any_interleaving_of_workers(
    turns: list[tuple[float, int, list[int], int, bool]],
    requests: int,
    tokens: int | None,
    operator: int | None,
) -> None:
    quota, now, starts = Quota(declared=Limits(requests, tokens)), NOW, []
    if operator is not None:
        quota = Quota(declared=quota.declared, operator=Limits(operator))
    for wrong, passes, wanted, late, lost in turns:
        now += passes
        error = round(wrong * MICROS)
        following, reserved = plan_starts(quota, wanted, now + error)
        if lost:  # another worker wrote: a conditional write changes nothing
            continue
        quota = following
        # The worker compares a start with its own clock.
        starts += [(start.at - error + late, start.tokens) for start in reserved]
    most, most_tokens = most_in_a_minute(starts)
    assert most <= (requests if operator is None else operator)
    if tokens is not None:
        assert most_tokens <= tokens + max((t for _, t in starts), default=0)


@given(st.lists(st.integers(1, 500), min_size=1, max_size=200), st.integers(1, 6_000))
def test_a_reservation_holds_at_most_what_a_dead_worker_may_lose(
    wanted: list[int], requests: int
) -> None:
    quota = Quota(declared=Limits(requests))
    following, starts = plan_starts(quota, wanted, NOW)
    assert starts[0].at == NOW
    assert all(start.at <= NOW + AHEAD for start in starts)
    then = NOW + AHEAD + following.request_span(NOW)
    assert following.next_start(then) == then


@pytest.mark.parametrize(
    ("correction", "seconds"), [(500, 31.0), (-500, 0.0), (0, 0.0)]
)
def test_a_correction_moves_the_next_start(correction: int, seconds: float) -> None:
    quota = Quota(declared=Limits(tokens_per_minute=1_000), tokens_next=NOW)
    quota, starts = plan_starts(quota, [], NOW, correction=correction)
    assert () == starts
    assert quota.next_start(NOW) - NOW == pytest.approx(seconds * MICROS, rel=0.01)


def test_a_start_is_used_within_its_time() -> None:
    start = Start(NOW)
    assert not start.is_late(NOW + round(LATEST_S * MICROS) - 1)
    assert start.is_late(NOW + round(LATEST_S * MICROS))


def test_a_call_that_no_minute_can_hold_is_refused_at_once() -> None:
    limits = Limits(tokens_per_minute=1_000)
    require_possible("model", 1_000, limits)
    with pytest.raises(PermanentError) as caught:
        require_possible("model", 1_001, limits)
    assert TOO_LARGE_CODE == caught.value.code


@pytest.mark.parametrize("name", LIMITS)
@pytest.mark.parametrize("wrong", [0, -1, 1.5, True, 10**9 + 1])
def test_a_limit_is_a_whole_number_above_zero(name: str, wrong: int) -> None:
    with pytest.raises(UsageError, match=name):
        Limits(**{name: wrong})


@pytest.mark.parametrize("name", LIMITS)
def test_an_operator_replaces_a_limit_and_keeps_the_others(name: str) -> None:
    changed = Limits(1, 2, 3, 4).changed_by(Limits(**{name: 10**4}))
    assert replace(Limits(1, 2, 3, 4), **{name: 10**4}) == changed


@pytest.mark.parametrize(
    ("limits", "a_minute", "contradicts"),
    [
        (Limits(600), 600, False),
        (Limits(requests_per_second=10), 600, False),
        (Limits(300, requests_per_second=10), 300, False),
        (Limits(9_000, requests_per_second=10), 600, False),
        (Limits(10, requests_per_second=10), 10, False),
        (Limits(9, requests_per_second=10), 9, True),
        (Limits(tokens_per_minute=9), None, False),
    ],
)
def test_the_stricter_limit_of_requests_counts_and_a_contradiction_is_refused(
    limits: Limits, a_minute: int | None, *, contradicts: bool
) -> None:
    assert a_minute == limits.requests_a_minute
    if contradicts:
        with pytest.raises(UsageError, match="10 requests a second are more than 9"):
            Dependency("shop", limits=limits)
    else:
        Dependency("shop", limits=limits)


def test_all_calls_that_fit_receive_a_start() -> None:
    _, starts = plan_starts(Quota(declared=Limits(600)), [1, 2, 3], NOW)
    assert [1, 2, 3] == [start.tokens for start in starts]
