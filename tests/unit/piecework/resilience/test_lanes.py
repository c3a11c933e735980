"""Guarantee: a call waits for room as long as its lane says, then it goes direct."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from piecework.errors import UsageError
from piecework.resilience.lanes import DIRECT, Lane, parse_override

FLEX = Lane.flex(within="1h")


@pytest.mark.parametrize(
    ("since", "now", "tier"),
    [
        (None, 0.0, "flex"),
        (0.0, 3599.0, "flex"),
        (0.0, 3600.0, ""),
        (50.0, 3649.0, "flex"),
    ],
)
def test_a_lane_is_taken_until_its_time_is_over(
    since: float | None, now: float, tier: str
) -> None:
    assert FLEX.at(since, now).tier == tier


@pytest.mark.parametrize(
    ("waited", "asked", "wait_s"),
    [
        (0.0, None, 15.0),
        (40.0, None, 40.0),  # as long again as it has waited
        (2000.0, None, 300.0),
        (40.0, 60.0, 60.0),  # the provider knows more
        (3500.0, None, 100.0),  # it goes direct on time
        (3500.0, 900.0, 100.0),
        (3700.0, None, 0.0),
    ],
)
def test_a_call_asks_for_room_ever_more_rarely(
    waited: float, asked: float | None, wait_s: float
) -> None:
    assert FLEX.wait_s(100.0, 100.0 + waited, asked) == wait_s


@pytest.mark.parametrize("within", [7200, timedelta(hours=2), "2h", "1h60m"])
def test_a_span_has_any_usual_form(within: Any) -> None:
    assert Lane.flex(within=within) == Lane("flex", 900.0, 7200.0)


@pytest.mark.parametrize(
    "wrong",
    [
        {"within": "4m"},
        {"within": "soon"},
        {"within": True},
        {"within": float("nan")},
        {"timeout": 0},
        {"timeout": float("nan")},
    ],
)
def test_a_wrong_lane_is_refused_in_one_sentence(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="A lane cannot be declared: "):
        Lane.flex(**wrong)


def test_a_job_overrides_its_lanes_with_direct_alone() -> None:
    assert Lane.direct() == DIRECT == Lane()
    assert [parse_override(each) for each in ("", "direct")] == ["", "direct"]
    with pytest.raises(UsageError, match="'flex' is not a lane of a whole job"):
        parse_override("flex")


def test_a_batch_lane_reserves_half_and_has_its_times_in_seconds() -> None:
    lane = Lane.batch(within="12h", at_least=5, gather="2m")
    assert lane == Lane("batch", 0.0, 43_200.0, 5, 120.0)
    assert (lane.share, FLEX.share, DIRECT.share) == (0.5, 1.0, 1.0)


@pytest.mark.parametrize(
    "wrong",
    [
        {"within": "4m"},
        {"at_least": 0},
        {"at_least": True},
        {"gather": "soon"},
        {"within": "1h", "gather": "31m"},
        {"gather": -1},
    ],
)
def test_a_batch_lane_that_cannot_be_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as refused:
        Lane.batch(**wrong)
    assert refused.value.code == "pipeline.declaration.invalid"
