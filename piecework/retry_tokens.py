"""The fleet's retry budget: retries are a share of what succeeded lately. Pure.

Each process keeps to the share by itself, and so the whole fleet does: when a
dependency fails for everybody nothing is earned, what was earned before is soon
forgotten, and no storm of retries can form.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp
from typing import Final

from piecework.errors import TransientError

#: The code of a call that was not tried again, for there was no retry left.
SPENT_CODE: Final = "runtime.budget.retry_exhausted"

#: Retries that a process has at its start, before anything could succeed.
START: Final = 10.0
#: Retries that are never forgotten, and how many of them come back each second: for a
#: process that calls seldom.
FLOOR: Final = 1.0
A_SECOND: Final = 0.1
#: Seconds after which about a third of what was earned is left.
MEMORY_S: Final = 10.0


@dataclass(slots=True)
class RetryTokens:
    """What one process may still spend on retries of calls to one dependency."""

    tokens: float = START
    at: float | None = None

    def succeeded(self, share: float, now: float) -> None:
        """Earn a part of a retry."""
        self._pass_time(now)
        self.tokens += share

    def take(self, now: float) -> bool:
        """Spend a retry, if there is one."""
        self._pass_time(now)
        if self.tokens < 1.0:
            return False
        self.tokens -= 1.0
        return True

    def _pass_time(self, now: float) -> None:
        seconds = 0.0 if self.at is None else max(0.0, now - self.at)
        self.at = now
        earned = self.tokens - FLOOR
        if earned > 0:
            self.tokens = FLOOR + earned * exp(-seconds / MEMORY_S)
        else:
            self.tokens = min(FLOOR, self.tokens + A_SECOND * seconds)


def spent(dependency: str, retry_after: float | None) -> TransientError:
    """Return the error of a call that failed, and is not tried again right now."""
    return TransientError(
        f"Too many calls to dependency {dependency} fail to try this one again now.",
        code=SPENT_CODE,
        retry_after=retry_after,
        dependency=dependency,
    )
