"""Retry a call inside the worker, within the retry time of the call and of the run.

    delay = uniform(0, min(cap, base * 2**n)),  n = 0 for the first delay  (full jitter)
    delay = Retry-After + uniform(0, base),     if the other side sent a Retry-After

Only transient errors are retried, and twice what no rule knows. The retries end if a
delay exceeds the retry time of the call or the run, or the lease. The call then fails,
and its chunk waits without a worker: for a retry or a deferral.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from math import exp, inf
from random import Random
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from piecework.errors import TransientError, UsageError
from piecework.errors.sent import Sent
from piecework.resilience.breaker import OPEN_CODE
from piecework.resilience.budget import DAY_RESERVED_CODE, RESERVED_CODE
from piecework.resilience.lanes import NO_ROOM_CODE
from piecework.resilience.limits import DEPENDENCY_PAUSED_CODE, QUOTA_CODE

if TYPE_CHECKING:
    from piecework.errors import ErrorEnvelope

R = TypeVar("R")

#: The code of an exception of a call that no rule knows, and its further tries: it may
#: be an error of the network, or a mistake of the function.
UNKNOWN_CODE: Final = "runtime.call.unhandled"
UNKNOWN_TRIES: Final = 2

#: The code of a call that was not made because an equal one is in progress.
IN_PROGRESS_CODE: Final = "idempotency.key.in_progress"

#: The code of a call that was not made because earlier numbers are still missing.
EARLY_CODE: Final = "idempotency.sequence.early"

#: Codes of calls that were not made because of what the whole fleet does, or whose
#: provider has no room for anyone in a cheap lane. The chunk waits without a worker: a
#: retry in the worker would find the same.
WAITS_FOR_THE_FLEET: Final = frozenset(
    {OPEN_CODE, QUOTA_CODE, DEPENDENCY_PAUSED_CODE, IN_PROGRESS_CODE, EARLY_CODE}
    | {RESERVED_CODE, DAY_RESERVED_CODE, NO_ROOM_CODE}
)

_MAX_DOUBLINGS: Final = 60  # beyond it any cap is reached and the power only grows


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How the calls of a dependency are retried. All times are in seconds.

    Attributes:
        attempts: Attempts in all, the first included.
        base: The limit of the first delay; it doubles with each further delay.
        cap: The upper limit of every delay.
        retry_time: The retry time of one call: its delays in all.
        retry_ratio: The retries that a worker may make for each call that succeeds.

    Raises:
        UsageError: `pipeline.declaration.invalid`.
    """

    attempts: int = 5
    base: float = 0.25
    cap: float = 30.0
    retry_time: float = 30.0
    retry_ratio: float = 0.2

    def __post_init__(self) -> None:
        """Refuse values with which no call would be made, or no delay would fit."""
        smallest = min(self.retry_time, self.retry_ratio)
        if self.attempts < 1 or not 0 < self.base <= self.cap or smallest < 0:
            raise UsageError(
                f"{self} is not valid.",
                code="pipeline.declaration.invalid",
                next_step="Keep attempts >= 1, 0 < base <= cap, retry_time >= 0 and "
                "retry_ratio >= 0.",
            )

    def delay_limit(self, attempt: int) -> float:
        """Return the longest delay after an attempt; attempts count from 1."""
        return min(self.cap, self.base * 2.0 ** min(attempt - 1, _MAX_DOUBLINGS))


@dataclass(slots=True)
class RetryTime:
    """Seconds of delay that all calls of one run share.

    Attributes:
        max_delay: The limit of a single delay: a longer one might outlive the lease.
    """

    seconds: float = 60.0
    spent: float = 0.0
    max_delay: float = inf

    def fits(self, delay: float) -> bool:
        """Return whether a delay is within the retry time."""
        return delay <= self.max_delay and self.spent + delay <= self.seconds

    def take(self, delay: float) -> bool:
        """Spend a delay; False: it exceeds the retry time, and nothing is spent."""
        if not self.fits(delay):
            return False
        self.spent += delay
        return True


# ── end of an attempt, as a value ─────────────────────────────────────────────
#
# The error of an attempt is classified once. The circuit breaker, the retries, the
# attempt log, the ledger and the fallbacks read the envelope.


@dataclass(frozen=True, slots=True)
class Answered(Generic[R]):
    """The end of an attempt or a call that was answered."""

    value: R


@dataclass(frozen=True, slots=True)
class Failed:
    """The end of an attempt or a call that failed.

    Attributes:
        envelope: What the error means.
        error: The error, for the code that made the call.
        earlier: The failures of earlier attempts of the call.
    """

    envelope: ErrorEnvelope
    error: Exception
    earlier: tuple[ErrorEnvelope, ...] = ()

    @property
    def is_not_executed(self) -> bool:
        """Whether no attempt was executed; a timeout, for example, may hide one."""
        return all(map(not_executed, (*self.earlier, self.envelope)))

    @property
    def is_not_sent(self) -> bool:
        """Whether no attempt left this process."""
        return all(map(not_sent, (*self.earlier, self.envelope)))


def answer_of(end: Answered[R] | Failed) -> R:
    """Return the answer, or raise the error.

    No frame here keeps the error while it is raised. Otherwise the error, its traceback
    and the arguments of the call would stay in memory until the garbage collector runs.
    """
    if isinstance(end, Answered):
        return end.value
    error = end.error
    del end
    try:
        raise error
    finally:
        del error


async def call_with_retry(
    attempt: Callable[[], Awaitable[Answered[R] | Failed]],
    retries: Retries,
    *,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    on_retry: Callable[[ErrorEnvelope, float], None] = lambda *_: None,
) -> Answered[R] | Failed:
    """Return the end of the last attempt.

    `on_retry` gets a failure and the delay, before the delay: so the log of a killed
    worker has it.
    """
    while True:
        end = await attempt()
        if isinstance(end, Answered):
            return end
        delay = retries.delay_after(end)
        if delay is None:
            return end
        on_retry(end.envelope, delay)
        await sleep(delay)


@dataclass(slots=True)
class Retries:
    """Decides whether a call is attempted again, and after which delay.

    Attributes:
        run: The retry time that all calls of the run share.
        may_retry: Called last with the failure, once all other conditions allow a
            retry: it may take a token.
        attempts: The attempts that have failed.
        unknown: Those of them that failed with what no rule knows.
        delayed: Seconds of delay so far.
    """

    policy: RetryPolicy
    run: RetryTime
    rng: Random
    may_retry: Callable[[ErrorEnvelope], bool] = lambda _: True
    attempts: int = 0
    unknown: int = 0
    delayed: float = 0.0

    def delay_after(self, end: Failed) -> float | None:
        """Spend and return the seconds until the next attempt; None: it was the last.

        A retried error loses its traceback, which would keep the arguments in memory:
        no caller sees the error any more.
        """
        self.attempts += 1
        failure = end.envelope
        is_unknown = failure.code == UNKNOWN_CODE
        self.unknown += is_unknown
        helps = failure.retryable or (is_unknown and self.unknown <= UNKNOWN_TRIES)
        if not helps or failure.code in WAITS_FOR_THE_FLEET:
            return None
        delay = self._draw_delay(failure)
        if self.attempts >= self.policy.attempts:
            return None
        if self.delayed + delay > self.policy.retry_time or not self.run.fits(delay):
            return None
        if not self.may_retry(failure):
            return None
        self.delayed += delay
        self.run.take(delay)
        end.error.__traceback__ = None
        return delay

    def _draw_delay(self, failure: ErrorEnvelope) -> float:
        """Draw the delay: full jitter, or a little more than the Retry-After."""
        if failure.retry_after is not None:
            return failure.retry_after + self.rng.uniform(0.0, self.policy.base)
        return self.rng.uniform(0.0, self.policy.delay_limit(self.attempts))


# ── the retry budget of the fleet ─────────────────────────────────────────────
#
# Each process keeps to the share by itself, and so the whole fleet does. If a
# dependency fails for all callers, the processes earn no tokens and soon lose those
# they earned before. So no storm of retries can form.

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
        """Take one token; False: no token is left."""
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


def budget_exhausted_error(dependency: str, last: ErrorEnvelope) -> TransientError:
    """Return the error of a call that failed and is not retried now."""
    return TransientError(
        f"The retry budget for {dependency} is exhausted: too many of its calls fail,"
        f" the last with {last.code}.",
        code=BUDGET_CODE,
        retry_after=last.retry_after,
        dependency=dependency,
    )


#: HTTP statuses that prove that the call was not executed. 408 is a timeout, and 409
#: may mean that the same request is being executed already.
REFUSAL_STATUSES = frozenset(range(400, 500)) - {408, 409}

#: Codes of attempts that were not made at all.
NOT_MADE_CODES = WAITS_FOR_THE_FLEET | {BUDGET_CODE}


def not_executed(failure: ErrorEnvelope) -> bool:
    """Return whether a call was certainly not executed: refused, or never sent.

    A timeout, a broken connection or a 5xx does not prove that.
    """
    return not_sent(failure) or failure.http_status in REFUSAL_STATUSES


def not_sent(failure: ErrorEnvelope) -> bool:
    """Return whether no request of a call left this process."""
    return failure.sent is Sent.NO or failure.code in NOT_MADE_CODES


def blocked_on(failure: ErrorEnvelope) -> str:
    """Return the dependency that could not be called, or ""."""
    waits = failure.is_not_connected or failure.code in NOT_MADE_CODES
    return failure.dependency if waits else ""
