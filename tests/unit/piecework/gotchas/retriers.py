"""Ways to try a call again: ours, and those of tutorials."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random

from piecework import RetryPolicy
from piecework.resilience.retry import Retries, RetryBudget, call_with_retry
from tests.unit.piecework.retrying import Call, ending

#: Makes a call, and returns the seconds that it waited in between.
Retrier = Callable[[Call, Random], Awaitable[list[float]]]

PATIENT = RetryPolicy(attempts=20, base=1.0, cap=30.0, budget=math.inf)


def ours(policy: RetryPolicy) -> Retrier:
    """Return tier one of recovery, with nothing to pay for its waits."""

    async def try_again(call: Call, rng: Random) -> list[float]:
        waits: list[float] = []

        async def sleep(seconds: float) -> None:
            waits.append(seconds)

        retries = Retries(policy, RetryBudget(math.inf), rng)
        await call_with_retry(ending(call), retries, sleep=sleep)
        return waits

    return try_again


def sound_wait(attempt: int, rng: Random) -> float:
    return rng.uniform(0.0, min(30.0, 2.0**attempt))


def sound_reason(error: Exception) -> bool:
    response = getattr(error, "response", None)
    if response is None:
        return isinstance(error, OSError)
    return response.status_code in {408, 429} or response.status_code >= 500


@dataclass(frozen=True)
class Naive:
    """The loop of a tutorial."""

    helps: Callable[[Exception], bool] = sound_reason
    wait: Callable[[int, Random], float] = sound_wait
    limit: int = 20

    async def __call__(self, call: Call, rng: Random) -> list[float]:
        waits: list[float] = []
        for attempt in range(self.limit):
            try:
                await call()
            except Exception as error:  # noqa: BLE001  as tutorials do
                if not self.helps(error):
                    break
                waits.append(self.wait(attempt, rng))
            else:
                break
        return waits[: self.limit - 1]


def first_waits(clients: int) -> list[Random]:
    """Return the chances of clients that all fail at one moment."""
    return [Random(seed) for seed in range(clients)]
