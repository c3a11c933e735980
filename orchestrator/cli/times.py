"""Moments and spans as people write and read them."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_SPAN = re.compile(r"([0-9]{1,12})([smhd])")
#: Seconds of the longest span, a hundred years: what is longer is a slip of the hand.
LONGEST_S = 36_500 * SECONDS["d"]


def parse_span(text: str) -> float:
    """Return the seconds that `90s`, `15m`, `1h30m` or `2d` stand for.

    Raises:
        UsageError: `cli.usage.invalid`.
    """
    parts = _SPAN.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        from piecework.errors import UsageError

        message = f"{text!r} is not a span of time."
        raise UsageError(message, next_step="Write it as 30s, 15m, 1h30m or 2d.")
    seconds = sum(int(number) * SECONDS[unit] for number, unit in parts)
    if seconds > LONGEST_S:
        from piecework.errors import UsageError

        message = f"{text!r} is longer than a hundred years."
        raise UsageError(message, next_step="Write it as 30s, 15m, 1h30m or 2d.")
    return float(seconds)


def parse_limit(text: str) -> float | None:
    """Return the seconds that a span stands for; None: nothing was typed.

    Raises:
        UsageError: `cli.usage.invalid`.
    """
    return parse_span(text) if text else None


def parse_deadline(text: str, now: float) -> float:
    """Return the moment that `2h`, or an ISO time with its zone, stands for.

    Raises:
        UsageError: `cli.usage.invalid`: it is neither, or has passed.
    """
    from piecework.errors import UsageError

    if not text[:1].isdigit() or "-" not in text:
        return ahead(now + parse_span(text), text, now)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        message = f"{text!r} is no moment."
        raise UsageError(message, next_step="Write 2h, or 2026-11-22T18:00:00Z.")
    return ahead(found.timestamp(), text, now)


def ahead(moment: float, text: str, now: float) -> float:
    """Return a deadline that lies ahead: at one that has passed a job is undone."""
    from piecework.errors import UsageError

    if moment <= now:
        message = f"The deadline {text} has passed."
        raise UsageError(message, next_step="Name a later one.")
    return moment


def span(seconds: float) -> str:
    """Return seconds as their two largest units."""
    if seconds < 1:
        return f"{max(seconds, 0) * 1000:.0f}ms"
    if seconds < 10:  # noqa: PLR2004 -- where a tenth of a second still says something
        return f"{seconds:.1f}s"
    whole = round(seconds)
    for unit, below, smaller in (("d", "h", 3600), ("h", "m", 60), ("m", "s", 1)):
        size = SECONDS[unit]
        if whole >= size:
            rest = whole % size // smaller
            return f"{whole // size}{unit}" + (f"{rest}{below}" if rest else "")
    return f"{whole}s"


def clock_time(seconds: float) -> str:
    """Return seconds as a clock shows them: 0:12, 1:02:03."""
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"


def ago(moment: Any, now: float) -> str:
    """Return how long ago an ISO moment was; nothing for no moment."""
    if not moment:
        return ""
    seconds = now - at(moment)
    return f"{span(seconds)} ago" if seconds >= 0 else f"in {span(-seconds)}"


def between(start: Any, end: Any) -> str:
    """Return the span between two ISO moments; nothing unless both are there."""
    return span(at(end) - at(start)) if start and end else ""


def at(moment: Any) -> float:
    """Return an ISO moment in seconds since 1970."""
    return datetime.fromisoformat(str(moment)).timestamp()
