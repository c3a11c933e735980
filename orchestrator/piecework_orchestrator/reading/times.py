"""Parse and format times and spans of time, and format numbers, for people."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

from piecework.domain.moments import LAST_MOMENT
from piecework.domain.spans import SECONDS, is_span, span_s
from piecework.errors import UsageError

#: A time whose year has more than four digits.
_LONG_YEAR = re.compile(r"\+?[0-9]{5,}-[0-9]")
#: Seconds of the longest span, a hundred years: a longer span is a typing error.
MAX_SPAN_S = 36_500 * SECONDS["d"]


def parse_span(text: str) -> float:
    """Return the seconds of a span such as `90s`, `15m`, `1h30m` or `2d`.

    Raises:
        UsageError: `cli.usage.invalid`.
    """
    if not is_span(text):
        message = f"{text!r} is not a span of time."
        raise UsageError(message, next_step="Write it as 30s, 15m, 1h30m or 2d.")
    seconds = span_s(text)
    if seconds > MAX_SPAN_S:
        message = f"{text!r} is longer than a hundred years."
        raise UsageError(message, next_step="Write it as 30s, 15m, 1h30m or 2d.")
    return seconds


def parse_limit(text: str) -> float | None:
    """Return the seconds of a span; None for an empty text.

    Raises:
        UsageError: `cli.usage.invalid`.
    """
    return parse_span(text) if text else None


def parse_deadline(text: str, now: float) -> float:
    """Return the epoch seconds of `2h` from now, or of an ISO time with a zone.

    Raises:
        UsageError: `cli.usage.invalid`: the text is neither, or the time has passed or
            is after the year 9999.
    """
    if is_span(text):
        return require_future(now + parse_span(text), text, now)
    if _LONG_YEAR.match(text):
        raise _too_late(text)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        message = f"{text!r} is neither a span nor a time with a zone."
        raise UsageError(message, next_step="Write 2h, or 2026-11-22T18:00:00Z.")
    return require_future(found.timestamp(), text, now)


def require_future(moment: float, text: str, now: float) -> float:
    """Return a deadline if it is in the future.

    A past deadline would cancel and compensate the job at once. A year of five digits
    has no place in a record.

    Raises:
        UsageError: `cli.usage.invalid`.
    """
    if moment <= now:
        message = f"The deadline {text} has passed."
        raise UsageError(message, next_step="Use a later deadline.")
    if moment > LAST_MOMENT:
        raise _too_late(text)
    return moment


def _too_late(text: str) -> UsageError:
    message = f"The deadline {text} is after the year 9999."
    return UsageError(message, next_step="Use an earlier deadline, or none.")


def format_span(seconds: float) -> str:
    """Return seconds as their two largest units."""
    if seconds < 1:
        return f"{max(seconds, 0) * 1000:.0f}ms"
    if seconds < 10:  # noqa: PLR2004 -- below it a tenth of a second matters
        return f"{seconds:.1f}s"
    whole = round(seconds)
    for unit, below, smaller in (("d", "h", 3600), ("h", "m", 60), ("m", "s", 1)):
        size = SECONDS[unit]
        if whole >= size:
            rest = whole % size // smaller
            return f"{whole // size}{unit}" + (f"{rest}{below}" if rest else "")
    return f"{whole}s"


def format_clock(seconds: float) -> str:
    """Return seconds as a clock shows them: 0:12, 1:02:03."""
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"


def format_ago(moment: Any, now: float) -> str:
    """Return the time since an ISO time as text; empty for no time."""
    if not moment:
        return ""
    seconds = now - epoch(moment)
    return (
        f"{format_span(seconds)} ago" if seconds >= 0 else f"in {format_span(-seconds)}"
    )


def format_between(start: Any, end: Any) -> str:
    """Return the span between two ISO times as text; empty unless both are given."""
    return format_span(epoch(end) - epoch(start)) if start and end else ""


def epoch(moment: Any) -> float:
    """Return an ISO time in seconds since 1970."""
    return datetime.fromisoformat(str(moment)).timestamp()


def count(number: int, noun: str) -> str:
    """Return a number with its noun."""
    return f"{number:,} {noun}{'s' * (number != 1)}"
