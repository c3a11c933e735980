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
from math import inf
from random import Random
from typing import Final, TypeVar

from tenacity import AsyncRetrying, RetryCallState

from piecework.breaker import OPEN_CODE
from piecework.classify import classify as classify_exception
from piecework.errors import ErrorEnvelope, UsageError

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
