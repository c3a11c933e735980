"""Tier one of recovery: try a call again inside the worker, within two budgets.

    delay = uniform(0, min(cap, base * 2**n)),  n = 0 for the first wait   (full jitter)
    delay = Retry-After + uniform(0, base),     where the other side named a time

Only transient errors are tried again. A delay that does not fit the call's or the run's
budget, or a lease, ends it at once: the chunk is then released, and waits without
holding a worker.
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

_DOUBLINGS: Final = 60  # beyond it any cap is reached and the power only grows


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How a dependency's calls are tried again; all times in seconds."""

    attempts: int = 5  # calls in all, the first included
    base: float = 0.25  # the ceiling of the first wait, doubled for each one after
    cap: float = 30.0  # no ceiling grows beyond it
    budget: float = 30.0  # what one call may spend waiting in all
    retry_ratio: float = (
        0.2  # retries that the calls of a worker may make for each success
    )

    def __post_init__(self) -> None:
        """Refuse figures that would never call, or never wait as they say."""
        least = min(self.budget, self.retry_ratio)
        if self.attempts < 1 or not 0 < self.base <= self.cap or least < 0:
            raise UsageError(
                f"{self} is not valid.",
                code="pipeline.declaration.invalid",
                next_step="Keep attempts >= 1, 0 < base <= cap, budget >= 0 and "
                "retry_ratio >= 0.",
            )

    def ceiling(self, attempt: int) -> float:
        """Return the longest wait after the given attempt, counted from 1."""
        return min(self.cap, self.base * 2.0 ** min(attempt - 1, _DOUBLINGS))


@dataclass(slots=True)
class RetryBudget:
    """Seconds of waiting that all calls of one run share.

    Attributes:
        longest: A single wait of more might outlive the lease.
    """

    seconds: float = 60.0
    spent: float = 0.0
    longest: float = inf

    def fits(self, delay: float) -> bool:
        """Say whether so long a delay can still be spent."""
        return delay <= self.longest and self.spent + delay <= self.seconds

    def take(self, delay: float) -> bool:
        """Spend the delay if it fits; otherwise spend nothing and say so."""
        if not self.fits(delay):
            return False
        self.spent += delay
        return True


@dataclass(frozen=True, slots=True)
class Retry:
    """A retry about to happen: after which attempt, after what wait, and why."""

    attempt: int
    delay: float
    envelope: ErrorEnvelope


async def retried(
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
    """Return the call's value; when retries end, its last error is raised as it is.

    `may_retry` is asked last, when all else speaks for a retry.
    """
    try:
        # Most calls need no more than this, and tenacity would take nearly half of
        # their CPU: it is asked once there is a failure to show to it.
        return await call()
    except Exception as error:  # noqa: BLE001 -- the rules say what becomes of it
        first = [error]

    async def attempt() -> R:
        if first:
            raise first.pop()
        return await call()

    rules = _Rules(policy, budget, rng, classify, on_retry, may_retry)
    tries = AsyncRetrying(
        retry=rules.may_help,
        wait=rules.delay,
        stop=rules.ended,
        before_sleep=rules.announce,
        sleep=sleep,
        reraise=True,
    )
    return await tries(attempt)


@dataclass(slots=True)
class _Rules:
    """One call's decisions, in the order in which tenacity asks for them."""

    policy: RetryPolicy
    run: RetryBudget
    rng: Random
    classify: Callable[[BaseException], ErrorEnvelope]
    on_retry: Callable[[Retry], None]
    may_retry: Callable[[], bool]
    waited: float = 0.0
    envelope: ErrorEnvelope = field(init=False)  # of the last failure

    def may_help(self, state: RetryCallState) -> bool:
        """Only transient errors; a cancellation is no error and passes through."""
        error = state.outcome.exception() if state.outcome else None
        if not isinstance(error, Exception):
            return False
        envelope = self.classify(error)
        self.envelope = envelope.model_copy(update={"attempt": state.attempt_number})
        return envelope.retryable and envelope.code != OPEN_CODE

    def delay(self, state: RetryCallState) -> float:
        """Jitter over the whole range, or on top of what the other side asked for."""
        asked = self.envelope.retry_after
        if asked is not None:
            return asked + self.rng.uniform(0.0, self.policy.base)
        return self.rng.uniform(0.0, self.policy.ceiling(state.attempt_number))

    def ended(self, state: RetryCallState) -> bool:
        """Ask attempts first: a wait that will not happen must not be paid for."""
        delay = state.upcoming_sleep
        if state.attempt_number >= self.policy.attempts:
            return True
        if self.waited + delay > self.policy.budget or not self.run.fits(delay):
            return True
        if not self.may_retry():
            return True
        self.waited += delay
        return not self.run.take(delay)

    def announce(self, state: RetryCallState) -> None:
        """Tell of the wait before it begins: a killed worker has said why.

        What the failed attempt had in hand is let go of, for nobody raises it any more.
        """
        error = state.outcome.exception() if state.outcome else None
        if error is not None:
            error.__traceback__ = None
        self.on_retry(Retry(state.attempt_number, state.upcoming_sleep, self.envelope))
