"""The answers of CloudWatch's documentation, where it has examples."""

from __future__ import annotations

import pytest

from verification.scaling.alarm import Alarm, Source
from verification.scaling.metric_math import Series, evaluate

METRIC = Source("Piecework", "ChunksInProgress", "Average")


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("a < b", [0, 0, 1, 0]),
        ("a >= 30", [1, 0, 0, 0]),
        ("a > 15 AND b > 15", [1, 0, 0, 0]),
        ("a + b", [50, 20, 20, 0]),
        ("a / b", [1.5, None, 0, None]),
        ("FILL(b, 7)", [20, 7, 20, 7]),
        ("FILL(b, REPEAT)", [20, 20, 20, 20]),
        ("FILL(none, 7)", [None, None, None, None]),
        ("none + 0 * a", [0, 0, 0, 0]),
    ],
)
def test_two_series_are_put_together_as_documented(
    expression: str, expected: Series
) -> None:
    given: dict[str, Series] = {
        "a": [30, 20, 0, 0],
        "b": [20, None, 20, None],
        "none": [None] * 4,
    }

    assert expected == evaluate({"e": expression}, "e", given)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("IF(a, b, c)", [30, 0, 20, None, None]),
        ("IF(a, 5, c)", [5, 5, 20, None, None]),
        ("IF(a, b, 5)", [30, 0, 5, 5, None]),
        ("IF(a, b)", [30, 0, None, None, None]),
    ],
)
def test_a_choice_is_made_as_documented(expression: str, expected: Series) -> None:
    given: dict[str, Series] = {
        "a": [1, 1, 0, 0, None],
        "b": [30, None, 0, 0, 30],
        "c": [0, 0, 20, None, 20],
    }

    assert expected == evaluate({"e": expression}, "e", given)


@pytest.mark.parametrize(
    ("points", "datapoints", "missing", "alarm"),
    [
        ("0-X-X", 3, "missing", False),
        ("0XX-X", 3, "notBreaching", True),
        ("----X", 3, "breaching", True),
        ("----X", 3, "notBreaching", False),
        ("0-X-X", 2, "missing", True),
        ("00X0X", 2, "missing", True),
        ("0-X--", 2, "breaching", True),
        ("0-X--", 2, "notBreaching", False),
    ],
)
def test_an_alarm_looks_at_the_newest_figures_that_there_are(
    points: str, datapoints: int, missing: str, *, alarm: bool
) -> None:
    watched = Alarm(
        sources={"m": METRIC},
        expressions={"e": "m + 0 * m"},
        returned="e",
        breaches=lambda value, threshold: value > threshold,
        threshold=0.0,
        periods=3,
        datapoints=datapoints,
        missing=missing,
    )
    values: dict[str, float | None] = {"0": 0.0, "X": 1.0, "-": None}

    seen = watched.breaching_value({METRIC: [values[point] for point in points]})

    assert alarm == (seen is not None)
