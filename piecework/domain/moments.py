"""Moments as text that sorts, and back."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from functools import lru_cache

MICROS = 1_000_000
#: The end of the year 9999: no later moment has a text. And the longest wait.
LAST_MOMENT = 253_402_300_799.0
LONGEST_WAIT_S = LAST_MOMENT / 2


def iso(moment: float) -> str:
    """Return seconds since 1970 as ISO 8601 text in UTC, to the millisecond.

    Conditions compare these texts, so all have the same width and zone.
    """
    whole = math.floor(moment)
    carried, micros = divmod(round((moment - whole) * MICROS), MICROS)
    return f"{_to_the_second(whole + carried)}.{micros // 1000:03d}Z"


@lru_cache(maxsize=64)
def _to_the_second(seconds: int) -> str:
    """Return a moment without its fraction; cached, because values repeat often."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}"


def moment(text: str) -> float:
    """Return the moment that `iso` wrote, in seconds since 1970."""
    return datetime.fromisoformat(text).timestamp()
