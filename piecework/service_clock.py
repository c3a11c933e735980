"""Correct the local clock by the `Date` header of AWS responses.

One machine writes leases and delays, and others read them. If the local clock differs
from AWS by more than the responses allow, it is corrected as if the last response had
taken no time. Correctness does not depend on it. But a worker with a fast clock
would take the chunks of living workers, and one with a slow clock would wait too long.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from math import inf
from typing import Any

#: Seconds between two observations, once the offset is known to CLOSE_S seconds.
EVERY_S = 10.0
CLOSE_S = 2.0
#: `Date` has whole seconds: the service's time was up to this much later.
RESOLUTION_S = 1.0


@dataclass(slots=True)
class ServiceClock:
    """A clock; calling it returns the seconds since 1970.

    Attributes:
        local: The clock of this machine.
        offset: Seconds that are added to the local clock.
    """

    local: Callable[[], float] = time.time
    offset: float = 0.0
    _least: float = -inf
    _most: float = inf
    _observed_at: float = -inf

    def __call__(self) -> float:
        """Return the corrected time in seconds since 1970."""
        return self.local() + self.offset

    def due(self) -> bool:
        """Return whether to observe the next response; also after a clock jump."""
        known = self._most - self._least <= CLOSE_S
        return not known or abs(self.local() - self._observed_at) >= EVERY_S

    def observe(self, sent_at: float, answer: Mapping[str, Any]) -> None:
        """Update the offset from the response to a request sent at `sent_at`.

        `sent_at` is local time. The service wrote its date between then and now, so the
        true offset lies in [date - now, date + 1 s - sent_at]. The interval of earlier
        responses narrows it further. If both exclude each other, a clock was set, and
        the earlier interval is dropped.
        """
        date = read_date(answer)
        if date is None:
            return
        now = self.local()
        least, most = date - now, date + RESOLUTION_S - sent_at
        if max(least, self._least) <= min(most, self._most):
            least, most = max(least, self._least), min(most, self._most)
        self._least, self._most, self._observed_at = least, most, now
        # After retries the response belongs to the last attempt.
        nearest = min(least + RESOLUTION_S / 2, most)
        self.offset = 0.0 if least <= 0.0 <= most else nearest


def read_date(answer: Mapping[str, Any]) -> float | None:
    """Return the date of a response in seconds since 1970; None if it is missing.

    A malformed date does not fail the request, which was executed.
    """
    headers = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    try:
        date = parsedate_to_datetime(headers.get("date", ""))
    except ValueError:
        return None
    return None if date.tzinfo is None else date.timestamp()
