"""Tier one of recovery around any async function: try it again, with full jitter."""

from __future__ import annotations

import asyncio
import functools
import math
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, Literal, ParamSpec, TypeVar

from piecework import keys, telemetry
from piecework.classify import classify
from piecework.dependency import plainly_refused
from piecework.errors import ErrorEnvelope
from piecework.retry import Retry, RetryBudget, RetryPolicy, retried
from piecework.retry_tokens import RetryTokens
from piecework.telemetry.event import Level
from piecework.telemetry.quiet import quiet_log

P = ParamSpec("P")
R = TypeVar("R")

POLICY = RetryPolicy()
#: Noted on an error whose earlier attempts leave open what they did.
_DOUBTFUL: Final = "_piecework_doubtful"


def retry(
    policy: RetryPolicy = POLICY,
    *,
    budget: RetryBudget | None = None,
    layer: Literal["llm", "tool"] = "tool",
    timeout_s: float | None = None,
    rng: Random | None = None,
    clock: Callable[[], float] = time.time,
) -> Callable[[Callable[P, Awaitable[R]]], Callable[P, Awaitable[R]]]:
    """Make an async function try again after transient errors.

    Each attempt is given the same arguments, and the same idempotency key if
    `idempotent` stands outside. Each attempt is an event `call.attempt`, if structlog
    is configured. The functions that one `retry(...)` wraps share a budget: retries
    beyond `policy.retry_ratio` of their successes, and 10 to begin with, are not made.

    Args:
        policy: Attempts, waits and what one call may spend waiting, in seconds.
        budget: Waiting that all calls of a run share; None: each has its policy's.
        layer: The first word of the error codes: `llm` or `tool`.
        timeout_s: Seconds that one attempt may take; None: as long as it likes.
        rng: Where the jitter comes from.
        clock: Tells the time in seconds since 1970, for a `Retry-After` with a date.

    Raises:
        Exception: What the last attempt raised, as it is.
    """
    tier = Tier(
        policy,
        budget=RetryBudget(math.inf) if budget is None else budget,
        layer=layer,
        timeout_s=timeout_s,
        rng=rng or Random(),
        clock=clock,
    )

    def wrap(function: Callable[P, Awaitable[R]]) -> Callable[P, Awaitable[R]]:
        @functools.wraps(function)
        async def call(*args: P.args, **kwargs: P.kwargs) -> R:
            return await tier.call(functools.partial(function, *args, **kwargs))

        vars(call)["retries"] = policy.attempts > 1
        return call

    return wrap


@dataclass(frozen=True, slots=True)
class Tier:
    """What the calls that one `retry(...)` wraps have in common."""

    policy: RetryPolicy
    budget: RetryBudget
    layer: str
    timeout_s: float | None
    rng: Random
    clock: Callable[[], float]
    tokens: RetryTokens = field(default_factory=RetryTokens)

    async def call(self, bound: functools.partial[Awaitable[R]]) -> R:
        """Return a call's value, or raise what its last attempt raised."""
        name = getattr(bound.func, "__qualname__", repr(bound.func))
        told = Told(name, bound.keywords.get("idempotency_key"))

        async def attempt() -> R:
            told.attempt += 1
            async with asyncio.timeout(self.timeout_s):
                return await bound()

        try:
            answer = await retried(
                attempt,
                self.policy,
                budget=self.budget,
                rng=self.rng,
                classify=self.judge,
                on_retry=told.retried,
                may_retry=self.may_retry,
            )
        except Exception as error:
            told.failed(self.judge(error))
            if told.doubtful:
                BaseException.__setattr__(error, _DOUBTFUL, True)
            raise
        self.tokens.succeeded(
            self.policy.retry_ratio, asyncio.get_running_loop().time()
        )
        told.answered()
        return answer

    def judge(self, error: BaseException) -> ErrorEnvelope:
        """Return the envelope of an attempt's error."""
        return classify(error, layer=self.layer, now=self.clock())

    def may_retry(self) -> bool:
        """Spend one of the retries that are left."""
        return self.tokens.take(asyncio.get_running_loop().time())


def may_have_happened(error: BaseException) -> bool:
    """Say whether an attempt before the one that raised this may have done its work."""
    return bool(getattr(error, _DOUBTFUL, False))


def retries(function: Callable[..., Any]) -> bool:
    """Say whether a function tries again by itself."""
    return bool(getattr(function, "retries", False))


@dataclass(slots=True)
class Told:
    """Tells of each attempt of a call, once it has ended.

    Attributes:
        doubtful: One of them failed in a way that does not say what happened behind it.
    """

    name: str
    key: object
    attempt: int = 0
    doubtful: bool = False

    def answered(self) -> None:
        """Tell of the last one."""
        self._tell("debug", outcome="answered", error_code=None, delay_ms=0)

    def retried(self, retry: Retry) -> None:
        """Tell of one that is tried again."""
        self.doubtful = self.doubtful or not plainly_refused(retry.envelope)
        self.failed(retry.envelope, retry.delay)

    def failed(self, failure: ErrorEnvelope, delay: float = 0.0) -> None:
        """Tell of one that failed, and of the seconds until the next."""
        delay_ms = round(delay * 1000)
        self._tell(None, outcome="failed", error_code=failure.code, delay_ms=delay_ms)

    def _tell(self, level: Level | None, **facts: Any) -> None:
        key = keys.sha256(str(self.key).encode())[:12] if self.key else None
        telemetry.emit(
            quiet_log(),
            "call.attempt",
            level=level,
            dependency=self.name,
            attempt_number=self.attempt,
            idempotency_key_hash=key,
            **facts,
        )
