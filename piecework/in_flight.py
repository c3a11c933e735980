"""When nothing that was sent to the outside can happen there any more.

A connection that broke, a time-out or a worker's death say nothing of the request that
was under way: it may still be carried out, for as long as one may take. Before that
has passed, "there is no such thing" is no answer, and undoing would come too early.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from math import inf

from piecework.classify import Translate, classify
from piecework.dependency import Dependency, Effect
from piecework.errors import PieceworkError

#: Seconds of one piece of a wait: between them the work counts as alive.
PIECE_S = 30.0
#: Statuses of answers that somebody gave in the other side's place, or that say that
#: the same thing is being done right now.
NO_ANSWER = frozenset({408, 409, 502, 504})


@dataclass(slots=True)
class InFlight:
    """What one claim knows of requests that are still on their way.

    Attributes:
        acquired_at: Loop time since which nobody else can have sent any for the chunk.
        by: Loop time from which on everything has happened or never will.
    """

    sleep: Callable[[float], Awaitable[None]]
    progress: Callable[[], None]
    acquired_at: float = -inf
    by: float = -inf

    def inherited(self, seconds: float) -> None:
        """Note that an earlier claim may have sent what takes up to so long."""
        self.by = max(self.by, self.acquired_at + seconds)

    def unanswered(
        self, dependency: Dependency, asked_at: float, error: BaseException
    ) -> None:
        """Note a request whose failure leaves open what becomes of it."""
        pure = dependency.effect is Effect.PURE
        if not pure and may_land(error, dependency.classify):
            self.by = max(self.by, asked_at + dependency.timeout)

    @property
    def seconds(self) -> float:
        """Seconds until nothing can happen any more."""
        return max(0.0, self.by - asyncio.get_running_loop().time())

    async def over(self) -> None:
        """Wait until nothing can happen any more."""
        left = self.seconds
        while left > 0:
            await self.sleep(min(left, PIECE_S))
            self.progress()
            left -= PIECE_S


def may_land(error: BaseException, translate: Translate | None = None) -> bool:
    """Say whether a request may be carried out behind its failure, later on.

    Not if the other side answered, as it does once it is done with a request, nor if
    the function that calls it says in our words what it answered.
    """
    if isinstance(error, PieceworkError):
        return False
    if not isinstance(error, Exception):
        return True
    failure = classify(error, translate=translate)
    if failure.http_status is None:
        return failure.retryable
    return failure.http_status in NO_ANSWER
