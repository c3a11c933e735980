from __future__ import annotations

import pytest

from piecework.domain.moments import LAST_MOMENT
from piecework.errors import UsageError
from piecework_orchestrator.reading.times import (
    format_ago,
    format_between,
    format_clock,
    format_span,
    parse_deadline,
    parse_span,
)

NOW = 1_795_000_000.0


@pytest.mark.parametrize(
    ("text", "seconds"), [("30s", 30), ("15m", 900), ("1h30m", 5400), ("2d", 172_800)]
)
def test_a_span_is_parsed(text: str, seconds: float) -> None:
    assert seconds == parse_span(text)


@pytest.mark.parametrize("text", ["", "1", "h", "1 h", "1w", "-1h", "1h x"])
def test_an_invalid_span_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_span(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.25, "250ms"),
        (3.14, "3.1s"),
        (59, "59s"),
        (60, "1m"),
        (90, "1m30s"),
        (3600, "1h"),
        (5460, "1h31m"),
        (90_000, "1d1h"),
    ],
)
def test_a_span_is_formatted_in_two_units(seconds: float, text: str) -> None:
    assert text == format_span(seconds)


def test_a_time_is_formatted_relative_to_now() -> None:
    assert "10s ago" == format_ago("1970-01-01T00:00:00.000Z", 10.0)
    assert "in 10s" == format_ago("1970-01-01T00:00:20.000Z", 10.0)
    assert "" == format_ago(None, 10.0)


def test_the_span_between_two_times_is_formatted() -> None:
    moments = "1970-01-01T00:00:00.000Z", "1970-01-01T00:02:00.000Z"
    assert "2m" == format_between(*moments)


def test_an_eta_is_formatted_as_a_clock() -> None:
    assert ("0:07", "1:02:03") == (format_clock(7), format_clock(3723))


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2h", NOW + 7200),
        ("1h30m", NOW + 5400),
        ("2026-11-22T18:00:00Z", 1_795_370_400.0),
        ("2026-11-22T18:00:00+01:00", 1_795_366_800.0),
    ],
)
def test_a_deadline_is_a_span_from_now_or_a_time(text: str, moment: float) -> None:
    assert moment == parse_deadline(text, NOW)


@pytest.mark.parametrize(
    "text",
    [
        "0s",
        "2026-11-40T18:00:00Z",
        "2001-01-01T00:00Z",
    ],
)
def test_an_invalid_or_past_deadline_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_deadline(text, NOW)
    assert refused.value.code == "cli.usage.invalid"


@pytest.mark.parametrize(
    "text",
    [
        "9999-12-31T23:59:59-05:00",
        "9999-12-31T23:59:59.5Z",
        "10000-01-01T00:00:00Z",
        "+12026-11-22T18:00:00Z",
    ],
)
def test_a_deadline_after_the_year_9999_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"after the year 9999") as refused:
        parse_deadline(text, NOW)
    assert ("cli.usage.invalid", 2) == (refused.value.code, refused.value.exit_code)
    assert parse_deadline("9999-12-31T23:59:59Z", NOW) == LAST_MOMENT


@pytest.mark.parametrize("text", ["soon", "2 hours", "", "2026-11-22T18:00:00"])
def test_what_is_no_deadline_is_told_both_forms(text: str) -> None:
    with pytest.raises(UsageError, match="neither a span nor a time") as refused:
        parse_deadline(text, NOW)
    assert "Write 2h, or 2026-11-22T18:00:00Z." == refused.value.next_step


@pytest.mark.parametrize("text", ["99999999d", "36500d1s", "9" * 5000 + "d"])
def test_a_span_beyond_the_calendar_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_span(text)
    assert "cli.usage.invalid" == refused.value.code
    assert "2d" in refused.value.next_step
