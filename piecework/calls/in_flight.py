"""Know when no request that was sent to a provider can be executed any more.

A broken connection, a timeout or a worker's death may leave a request in flight. The
provider may still execute it, within the time that one request may take. Before that
time is over, a lookup that finds nothing proves nothing, and a compensation would come
too early.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from math import inf
from typing import Any, TypeVar

from piecework.calls.invoke import AwaitCancelledError
from piecework.dependency import Dependency
from piecework.domain.effect import Effect
from piecework.errors import PieceworkError
from piecework.resilience.retry import UNKNOWN_CODE, Failed, not_sent

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
        self, dependency: Dependency, sent_at: float, end: Failed | None
    ) -> None:
        """Note a failed request if the provider may still execute it."""
        if dependency.effect is not Effect.PURE and may_still_execute(end):
            self.clear_at = max(self.clear_at, sent_at + dependency.timeout_s)

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


def may_still_execute(end: Failed | None) -> bool:
    """Return whether the provider may still execute a request; None: it was cut off.

    It may not if it answered: it answers once it is done with a request.
    """
    if end is None:
        return True
    if not_sent(end.envelope):
        return False
    if has_read_answer(end.error):
        return False
    status = end.envelope.http_status
    if status is not None:
        return status in INCONCLUSIVE_STATUSES
    return end.envelope.retryable or end.envelope.code == UNKNOWN_CODE


def has_read_answer(error: BaseException) -> bool:
    """Return whether a function that raised this error has read its provider's answer.

    It has if it raised one of our errors. One of them stands for a cancellation.
    """
    ours = isinstance(error, PieceworkError)
    return ours and not isinstance(error, AwaitCancelledError)


# ── drain of in-flight effects ────────────────────────────────────────────────
#
# The chunk is about to be compensated. An effect that happened after its compensation
# would never be compensated.

R = TypeVar("R")


@dataclass(slots=True)
class EffectDrain:
    """Keeps the effects in flight apart from the stages that wait for them."""

    tasks: set[asyncio.Task[Any]] = field(default_factory=set)

    async def run_to_completion(
        self, work: Coroutine[Any, Any, R], drains: Callable[[], bool]
    ) -> R:
        """Run work; a cancellation stops it, too, unless `drains` returns True."""
        task = asyncio.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self._discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if not drains():
                task.cancel()
                await asyncio.wait([task])
            raise

    @property
    def draining(self) -> list[asyncio.Task[Any]]:
        """The effects in flight that nothing has cut off."""
        return [task for task in self.tasks if not task.cancelling()]

    def _discard(self, task: asyncio.Task[Any]) -> None:
        self.tasks.discard(task)
        if not task.cancelled():
            task.exception()  # mark it as seen: the stage that waits may be gone

    def abandon(self) -> None:
        """Cancel the effects that are still in flight."""
        for task in self.tasks:
            task.cancel()


# ── start a large number of calls a few at a time ─────────────────────────────
#
# A stage may start thousands of calls at once. Each needs some CPU before it waits for
# its slot. In a row, they would keep the event loop from answers, from freed slots and
# from the renewal of leases.

#: Calls that start in one round of the event loop: half a millisecond of CPU.
CALLS_PER_ROUND = 8


@dataclass(slots=True)
class CallPacer:
    """Starts the calls of a process in the order in which they arrive."""

    _started: int = 0
    _waiting: deque[asyncio.Future[None]] = field(default_factory=deque)

    async def wait_turn(self) -> None:
        """Return at once, or in a later round if this round has enough calls."""
        if self._started < CALLS_PER_ROUND:  # then no earlier call waits
            self._start()
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        await turn

    def _start(self) -> None:
        """Count a started call; the first of a round schedules the next round."""
        if not self._started:
            asyncio.get_running_loop().call_soon(self._next_round)
        self._started += 1

    def _next_round(self) -> None:
        """Start waiting calls in a new round."""
        self._started = 0
        while self._waiting and self._started < CALLS_PER_ROUND:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                self._start()
