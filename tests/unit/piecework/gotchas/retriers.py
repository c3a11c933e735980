"""A call that is tried again, behind a plain face."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from random import Random

from piecework import RetryPolicy
from piecework.resilience.retry import Retries, RetryTime, call_with_retry
from tests.unit.piecework.retrying import Call, ending

#: Makes a call, and returns the seconds that it waited in between.
Retrier = Callable[[Call, Random], Awaitable[list[float]]]

PATIENT = RetryPolicy(attempts=20, base=1.0, cap=30.0, retry_time=math.inf)


def ours(policy: RetryPolicy) -> Retrier:
    """Return tier one of recovery, with nothing to pay for its waits."""

    async def try_again(call: Call, rng: Random) -> list[float]:
        waits: list[float] = []

        async def sleep(seconds: float) -> None:
            waits.append(seconds)

        retries = Retries(policy, RetryTime(math.inf), rng)
        await call_with_retry(ending(call), retries, sleep=sleep)
        return waits

    return try_again


def first_waits(clients: int) -> list[Random]:
    """Return the chances of clients that all fail at one moment."""
    return [Random(seed) for seed in range(clients)]
