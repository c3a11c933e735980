"""Retry a call inside the worker, within the budgets of the call and of the run.

    delay = uniform(0, min(cap, base * 2**n)),  n = 0 for the first delay  (full jitter)
    delay = Retry-After + uniform(0, base),     if the other side sent a Retry-After

Only transient errors are retried. The retries end if a delay exceeds the budget of the
call or the run, or the lease. The chunk is then released, and waits without a worker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from math import exp, inf
from random import Random
from typing import Final, TypeVar

from tenacity import AsyncRetrying, RetryCallState

from piecework.errors import ErrorEnvelope, TransientError, UsageError
from piecework.errors.classify import classify as classify_exception
from piecework.resilience.breaker import OPEN_CODE

R = TypeVar("R")

_MAX_DOUBLINGS: Final = 60  # beyond it any cap is reached and the power only grows


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How the calls of a dependency are retried. All times are in seconds.

    Attributes:
        attempts: Attempts in all, the first included.
        base: The limit of the first delay; it doubles with each further delay.
        cap: The upper limit of every delay.
        budget: The delays of one call in all.
        retry_ratio: The retries that a worker may make for each call that succeeds.

    Raises:
        UsageError: `pipeline.declaration.invalid`.
    """

    attempts: int = 5
    base: float = 0.25
    cap: float = 30.0
    budget: float = 30.0
    retry_ratio: float = 0.2

    def __post_init__(self) -> None:
        """Refuse values with which no call would be made, or no delay would fit."""
        smallest = min(self.budget, self.retry_ratio)
        if self.attempts < 1 or not 0 < self.base <= self.cap or smallest < 0:
            raise UsageError(
                f"{self} is not valid.",
                code="pipeline.declaration.invalid",
                next_step="Keep attempts >= 1, 0 < base <= cap, budget >= 0 and "
                "retry_ratio >= 0.",
            )

    def delay_limit(self, attempt: int) -> float:
        """Return the longest delay after an attempt; attempts count from 1."""
        return min(self.cap, self.base * 2.0 ** min(attempt - 1, _MAX_DOUBLINGS))


@dataclass(slots=True)
class RetryBudget:
    """Seconds of delay that all calls of one run share.

    Attributes:
        max_delay: The limit of a single delay: a longer one might outlive the lease.
    """

    seconds: float = 60.0
    spent: float = 0.0
    max_delay: float = inf

    def fits(self, delay: float) -> bool:
        """Return whether a delay is within the budget."""
        return delay <= self.max_delay and self.spent + delay <= self.seconds

    def take(self, delay: float) -> bool:
        """Spend a delay; False: it exceeds the budget, and nothing is spent."""
        if not self.fits(delay):
            return False
        self.spent += delay
        return True


@dataclass(frozen=True, slots=True)
class Retry:
    """A retry that is about to happen: after which attempt and delay, and why."""

    attempt: int
    delay: float
    envelope: ErrorEnvelope


async def call_with_retry(
    call: Callable[[], Awaitable[R]],
    policy: RetryPolicy,
    *,
    budget: RetryBudget,
    rng: Random,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    classify: Callable[[BaseException], ErrorEnvelope] = classify_exception,
    on_retry: Callable[[Retry], None] = lambda _: None,
    may_retry: Callable[[], bool] = lambda: True,
) -> R:
    """Return the call's value.

    `may_retry` is called last, once all other conditions allow a retry: it may take a
    token.

    Raises:
        Exception: The error of the last attempt, unchanged.
    """
    try:
        # Most calls succeed at once, and tenacity would take nearly half of their CPU.
        # So it is used only after a failure.
        return await call()
    except Exception as error:  # noqa: BLE001 -- the rules below decide what happens
        first = [error]

    async def attempt() -> R:
        if first:
            raise first.pop()
        return await call()

    rules = _Rules(policy, budget, rng, classify, on_retry, may_retry)
    retrying = AsyncRetrying(
        retry=rules.is_retryable,
        wait=rules.delay,
        stop=rules.must_stop,
        before_sleep=rules.announce,
        sleep=sleep,
        reraise=True,
    )
    return await retrying(attempt)


@dataclass(slots=True)
class _Rules:
    """The decisions about one call, in the order in which tenacity requests them."""

    policy: RetryPolicy
    run: RetryBudget
    rng: Random
    classify: Callable[[BaseException], ErrorEnvelope]
    on_retry: Callable[[Retry], None]
    may_retry: Callable[[], bool]
    delayed: float = 0.0
    envelope: ErrorEnvelope = field(init=False)  # of the last failure

    def is_retryable(self, state: RetryCallState) -> bool:
        """Allow only transient errors; a cancellation is not an error, and passes."""
        error = state.outcome.exception() if state.outcome else None
        if not isinstance(error, Exception):
            return False
        envelope = self.classify(error)
        self.envelope = envelope.model_copy(update={"attempt": state.attempt_number})
        return envelope.retryable and envelope.code != OPEN_CODE

    def delay(self, state: RetryCallState) -> float:
        """Draw the delay: full jitter, or a little more than the Retry-After."""
        requested = self.envelope.retry_after
        if requested is not None:
            return requested + self.rng.uniform(0.0, self.policy.base)
        return self.rng.uniform(0.0, self.policy.delay_limit(state.attempt_number))

    def must_stop(self, state: RetryCallState) -> bool:
        """Check the attempts first: a delay that will not happen must not be spent."""
        delay = state.upcoming_sleep
        if state.attempt_number >= self.policy.attempts:
            return True
        if self.delayed + delay > self.policy.budget or not self.run.fits(delay):
            return True
        if not self.may_retry():
            return True
        self.delayed += delay
        return not self.run.take(delay)

    def announce(self, state: RetryCallState) -> None:
        """Report the delay before it begins, so that the log of a killed worker has it.

        The traceback of the failed attempt is dropped, because it would keep the
        arguments in memory and no caller sees it any more.
        """
        error = state.outcome.exception() if state.outcome else None
        if error is not None:
            error.__traceback__ = None
        self.on_retry(Retry(state.attempt_number, state.upcoming_sleep, self.envelope))


# The fleet's retry budget: retries are a share of the recent successes. Pure.
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


#: HTTP statuses that prove that the call was not executed. 408 is a timeout, and 409
#: may mean that the same request is being executed already.
REFUSAL_STATUSES = frozenset(range(400, 500)) - {408, 409}

#: Codes of attempts that were not made at all.
NOT_MADE_CODES = frozenset({OPEN_CODE, BUDGET_CODE})


def not_executed(failure: ErrorEnvelope) -> bool:
    """Return whether a call was certainly not executed: refused, or never made.

    A timeout, a broken connection or a 5xx does not prove that.
    """
    return failure.http_status in REFUSAL_STATUSES or failure.code in NOT_MADE_CODES


def blocked_on(failure: ErrorEnvelope) -> str:
    """Return the dependency whose breaker or budget blocked the call, or ""."""
    return failure.dependency if failure.code in NOT_MADE_CODES else ""
