"""Spans of time as people write them: `30s`, `15m`, `1h30m`, `2d`."""

from __future__ import annotations

import re

SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_PART = re.compile(r"[0-9]{1,12}[smhd]")


def is_span(text: str) -> bool:
    """Return whether a text is a span, such as that of a deadline, not a time."""
    return bool(text) and not _PART.sub("", text)


def span_s(text: str) -> float:
    """Return the seconds of a text that is a span."""
    return float(sum(int(p[:-1]) * SECONDS[p[-1]] for p in _PART.findall(text)))
