"""Know when no request that was sent to a provider can be executed any more.

A broken connection, a timeout or a worker's death do not tell whether the request that
was in flight is executed. The provider may still execute it, within the time that one
request may take. Before that time is over, a lookup that finds nothing proves nothing,
and a compensation would come too early.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from math import inf

from piecework.classify import Translate, classify
from piecework.dependency import Dependency, Effect
from piecework.errors import PieceworkError

#: Seconds of one part of a wait. After each part the work is reported as alive.
WAIT_PART_S = 30.0
#: Statuses that do not prove that the provider is done with the request. Either a proxy
#: sent them, or they say that the same request is being executed right now.
INCONCLUSIVE_STATUSES = frozenset({408, 409, 502, 504})


@dataclass(slots=True)
class InFlight:
    """What one claim knows of requests that may still be executed.

    Attributes:
        acquired_at: Loop time of the claim. Since then no other worker can have sent a
            request for the chunk.
        clear_at: Loop time at which no request can be executed any more.
    """

    sleep: Callable[[float], Awaitable[None]]
    progress: Callable[[], None]
    acquired_at: float = -inf
    clear_at: float = -inf

    def note_earlier_claim(self, seconds: float) -> None:
        """Note that an earlier claim may have sent a request of that duration."""
        self.clear_at = max(self.clear_at, self.acquired_at + seconds)

    def note_failure(
        self, dependency: Dependency, sent_at: float, error: BaseException
    ) -> None:
        """Note a failed request if the provider may still execute it."""
        pure = dependency.effect is Effect.PURE
        if not pure and may_still_execute(error, dependency.classify):
            self.clear_at = max(self.clear_at, sent_at + dependency.timeout)

    @property
    def remaining_s(self) -> float:
        """Seconds until no request can be executed any more."""
        return max(0.0, self.clear_at - asyncio.get_running_loop().time())

    async def wait(self) -> None:
        """Wait until no request can be executed any more."""
        left = self.remaining_s
        while left > 0:
            await self.sleep(min(left, WAIT_PART_S))
            self.progress()
            left -= WAIT_PART_S


def may_still_execute(error: BaseException, translate: Translate | None = None) -> bool:
    """Return whether the provider may still execute a request that failed.

    It may not if it answered, because it answers once it is done with a request. It may
    not either if the calling function raised one of our errors, because that function
    has read the answer.
    """
    if isinstance(error, PieceworkError):
        return False
    if not isinstance(error, Exception):
        return True
    failure = classify(error, translate=translate)
    if failure.http_status is None:
        return failure.retryable
    return failure.http_status in INCONCLUSIVE_STATUSES
