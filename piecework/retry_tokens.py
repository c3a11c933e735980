"""The fleet's retry budget: retries are a share of the recent successes. Pure.

Each process keeps to the share by itself, and so the whole fleet does. If a dependency
fails for all callers, the processes earn no tokens and soon lose those they earned
before. So no storm of retries can form.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp
from typing import Final

from piecework.errors import TransientError

#: The code of a call that was not retried because the budget was exhausted.
BUDGET_CODE: Final = "runtime.budget.retry_exhausted"

#: Tokens of a process at its start, before any call can have succeeded.
START_TOKENS: Final = 10.0
#: Tokens that do not decay, and how many of them return in each second: for a process
#: that calls seldom.
FLOOR_TOKENS: Final = 1.0
FLOOR_TOKENS_PER_S: Final = 0.1
#: Seconds after which about a third of the earned tokens is left.
DECAY_S: Final = 10.0


@dataclass(slots=True)
class RetryTokenBucket:
    """The retries that one process may still make of calls to one dependency."""

    tokens: float = START_TOKENS
    updated_at: float | None = None

    def add_success(self, ratio: float, now: float) -> None:
        """Add a fraction of a token for a call that succeeded."""
        self._decay(now)
        self.tokens += ratio

    def take(self, now: float) -> bool:
        """Take one token; False: there is none."""
        self._decay(now)
        if self.tokens < 1.0:
            return False
        self.tokens -= 1.0
        return True

    def _decay(self, now: float) -> None:
        seconds = 0.0 if self.updated_at is None else max(0.0, now - self.updated_at)
        self.updated_at = now
        earned = self.tokens - FLOOR_TOKENS
        if earned > 0:
            self.tokens = FLOOR_TOKENS + earned * exp(-seconds / DECAY_S)
        else:
            returned = FLOOR_TOKENS_PER_S * seconds
            self.tokens = min(FLOOR_TOKENS, self.tokens + returned)


def budget_exhausted_error(
    dependency: str, retry_after: float | None
) -> TransientError:
    """Return the error of a call that failed and is not retried now."""
    return TransientError(
        f"The retry budget for {dependency} is exhausted: too many of its calls fail.",
        code=BUDGET_CODE,
        retry_after=retry_after,
        dependency=dependency,
    )
