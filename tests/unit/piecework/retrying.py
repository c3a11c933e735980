"""A call that fails on cue, and a run of retries that does not sleep."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

from piecework.errors import ErrorEnvelope, TransientError
from piecework.errors.classify import classify
from piecework.resilience.retry import (
    Answered,
    Failed,
    Retries,
    RetryPolicy,
    RetryTime,
    answer_of,
    call_with_retry,
)

TOOL = RetryPolicy()


MODEL = RetryPolicy(attempts=3, base=1.0, cap=30.0)


class Call:
    """Fails with the given errors in turn, then answers."""

    def __init__(self, *errors: BaseException) -> None:
        self.errors = list(errors)
        self.made = 0

    async def __call__(self) -> str:
        self.made += 1
        if self.errors:
            raise self.errors.pop(0)
        return "answer"


class Run:
    """Runs a call without sleeping, and keeps what happened."""

    def __init__(self, seconds: float = 60.0, seed: int = 7) -> None:
        self.retry_time = RetryTime(seconds)
        self.rng = Random(seed)
        self.slept: list[float] = []
        self.retries: list[tuple[ErrorEnvelope, float]] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    async def __call__(self, call: Call, policy: RetryPolicy) -> str:
        retries = Retries(policy, self.retry_time, self.rng)
        return answer_of(
            await call_with_retry(
                ending(call),
                retries,
                sleep=self.sleep,
                on_retry=lambda *retry: self.retries.append(retry),
            )
        )


def ending(call: Call) -> Callable[[], Awaitable[Answered[str] | Failed]]:
    """Return a call that returns its end, and raises nothing but a cancellation."""

    async def attempt() -> Answered[str] | Failed:
        try:
            return Answered(await call())
        except Exception as error:  # noqa: BLE001 -- the end has the error
            return Failed(classify(error), error)

    return attempt


def failures(count: int, **kw: Any) -> list[TransientError]:
    return [TransientError(f"failure {n}", **kw) for n in range(1, count + 1)]
