"""A provider with limits of its own that keeps a book of every request.

It refuses a request with 429 and `Retry-After` when the last seconds reach its limit of
requests or tokens. What its callers believe changes nothing.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random


@dataclass(slots=True)
class Book:
    """The requests of a provider: their times, and the tokens of each answer."""

    admitted: list[tuple[float, int]] = field(default_factory=list)
    refused: list[float] = field(default_factory=list)

    def in_any_minute(self) -> int:
        """Return the largest number of requests admitted in any 60 seconds."""
        return most_in_window([at for at, _ in self.admitted], 60.0)

    def requests_between(self, begin: float, end: float) -> int:
        """Return the requests that were admitted in a time."""
        return sum(begin <= at < end for at, _ in self.admitted)

    def tokens_between(self, begin: float, end: float) -> int:
        """Return the tokens of the requests that were admitted in a time."""
        return sum(tokens for at, tokens in self.admitted if begin <= at < end)

    def refused_between(self, begin: float, end: float) -> int:
        """Return the requests that were refused in a time."""
        return sum(begin <= at < end for at in self.refused)


def most_in_window(times: list[float], window: float) -> int:
    """Return the largest number of times in any window of that length."""
    most, inside = 0, deque[float]()
    for at in sorted(times):
        inside.append(at)
        while inside[0] <= at - window:
            inside.popleft()
        most = max(most, len(inside))
    return most


@dataclass(slots=True)
class Provider:
    """A stub that answers within about `answer_s`, or refuses.

    Attributes:
        requests, tokens: The limits in each `window_s`; 0: no limit.
        retry_after: The seconds that a refusal names.
    """

    clock: Callable[[], float]
    requests: int = 0
    tokens: int = 0
    window_s: float = 1.0
    answer_s: float = 1.0
    retry_after: float = 1.0
    rng: Random = field(default_factory=lambda: Random(3))
    book: Book = field(default_factory=Book)
    in_flight: int = 0
    most_in_flight: int = 0
    _recent: deque[tuple[float, int]] = field(default_factory=deque)
    _recent_tokens: int = 0

    def now(self) -> float:
        """Return the time of the provider."""
        return self.clock()

    def admits(self, tokens: int) -> bool:
        """Admit a request that will use so many tokens, or refuse it."""
        now = self.clock()
        while self._recent and self._recent[0][0] <= now - self.window_s:
            self._recent_tokens -= self._recent.popleft()[1]
        full = self.requests and len(self._recent) >= self.requests
        if full or (self.tokens and self._recent_tokens + tokens > self.tokens):
            self.book.refused.append(now)
            return False
        self._recent.append((now, tokens))
        self._recent_tokens += tokens
        self.book.admitted.append((now, tokens))
        return True

    def forget(self) -> None:
        """Begin a new book, as if there had been no request."""
        self.book = Book()
        self._recent.clear()
        self._recent_tokens = 0

    async def work(self) -> None:
        """Take the time of an answer."""
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            await asyncio.sleep(self.duration())
        finally:
            self.in_flight -= 1

    def duration(self) -> float:
        """Return the seconds of an answer."""
        return self.answer_s * self.rng.uniform(0.7, 1.3)
