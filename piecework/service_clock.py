"""The time of day as the table's service tells it, where our own clock is wrong.

Leases and delays are written by one machine and read by others. Every answer of AWS
carries its time; a clock that is off by more than those answers allow is corrected as
if they had come back at once. Safety never rests on it, but a clock that
runs ahead would take living workers' chunks away, and one that lags would wait.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from math import inf
from typing import Any

#: Seconds between two looks at the service's clock, unless we know little of it yet.
EVERY_S = 10.0
CLOSE_S = 2.0
#: `Date` has whole seconds: the service's clock was within this much after it.
RESOLUTION_S = 1.0


@dataclass(slots=True)
class ServiceClock:
    """A clock; call it for the seconds since 1970.

    Attributes:
        offset: Seconds that are added to our own clock.
    """

    local: Callable[[], float] = time.time
    offset: float = 0.0
    _least: float = -inf
    _most: float = inf
    _heard_at: float = -inf

    def __call__(self) -> float:
        """Return the time."""
        return self.local() + self.offset

    def due(self) -> bool:
        """Say whether the next answer is worth a look; also after our clock jumped."""
        known = self._most - self._least <= CLOSE_S
        return not known or abs(self.local() - self._heard_at) >= EVERY_S

    def observe(self, sent_at: float, answer: Mapping[str, Any]) -> None:
        """Learn from an answer to a request that was sent at `sent_at`, our own time.

        The service wrote its date at some moment between then and now, so that the
        true offset lies in [date - now, date + 1 s - sent_at]. What was learned before
        narrows it further, unless the two exclude each other: then a clock was set.
        """
        told = read_date(answer)
        if told is None:
            return
        now = self.local()
        least, most = told - now, told + RESOLUTION_S - sent_at
        if max(least, self._least) <= min(most, self._most):
            least, most = max(least, self._least), min(most, self._most)
        self._least, self._most, self._heard_at = least, most, now
        # An answer that took several tries was written at the last of them.
        told_last = min(least + RESOLUTION_S / 2, most)
        self.offset = 0.0 if least <= 0.0 <= most else told_last


def read_date(answer: Mapping[str, Any]) -> float | None:
    """Return the date of an answer; None: it has none that can be read.

    The request was carried out all the same.
    """
    headers = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    try:
        date = parsedate_to_datetime(headers.get("date", ""))
    except ValueError:
        return None
    return None if date.tzinfo is None else date.timestamp()
