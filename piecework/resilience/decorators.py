"""Retry any async function, with full jitter."""

from __future__ import annotations

import asyncio
import functools
import math
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, Literal, ParamSpec, TypeVar

from piecework import telemetry
from piecework.domain import keys
from piecework.errors import ErrorEnvelope
from piecework.errors.classify import classify
from piecework.resilience.breaker import (
    BreakerState,
    CircuitBreaker,
    Health,
    Rejected,
    breaker_open_error,
)
from piecework.resilience.retry import (
    Answered,
    Failed,
    Retries,
    RetryPolicy,
    RetryTime,
    RetryTokenBucket,
    answer_of,
    call_with_retry,
    not_executed,
)
from piecework.telemetry.emit import quiet_log
from piecework.telemetry.events import Level

P = ParamSpec("P")
R = TypeVar("R")

POLICY = RetryPolicy()
#: Attribute of an error whose earlier attempts may have been executed.
_MAY_HAVE_HAPPENED: Final = "_piecework_may_have_happened"


def retry(
    policy: RetryPolicy = POLICY,
    *,
    retry_time: RetryTime | None = None,
    layer: Literal["llm", "tool"] = "tool",
    timeout_s: float | None = None,
    rng: Random | None = None,
    clock: Callable[[], float] = time.time,
) -> Callable[[Callable[P, Awaitable[R]]], Callable[P, Awaitable[R]]]:
    """Make an async function retry after transient errors.

    Each attempt receives the same arguments, and the same idempotency key if
    `idempotent` wraps this function. Each attempt is logged as the event `call.attempt`
    if structlog is configured.

    All functions that one `retry(...)` wraps share a retry budget. It has 10 retries at
    the start, and gets `policy.retry_ratio` retries for each call that succeeds.

    Args:
        policy: Attempts, delays and the retry time of one call, in seconds.
        retry_time: The retry time of a run, which its calls share; None: that of the
            policy for each call.
        layer: The first word of the error codes: `llm` or `tool`.
        timeout_s: Seconds that one attempt may take; None: no limit.
        rng: Source of the jitter.
        clock: Returns the seconds since 1970, for a `Retry-After` that is a date.

    Raises:
        Exception: The error of the last attempt, unchanged.
    """
    retrier = Retrier(
        policy,
        retry_time=RetryTime(math.inf) if retry_time is None else retry_time,
        layer=layer,
        timeout_s=timeout_s,
        rng=rng or Random(),
        clock=clock,
    )

    def wrap(function: Callable[P, Awaitable[R]]) -> Callable[P, Awaitable[R]]:
        @functools.wraps(function)
        async def call(*args: P.args, **kwargs: P.kwargs) -> R:
            return await retrier.call(functools.partial(function, *args, **kwargs))

        vars(call)["retries"] = policy.attempts > 1
        return call

    return wrap


@dataclass(frozen=True, slots=True)
class Retrier:
    """What the calls that one `retry(...)` wraps have in common."""

    policy: RetryPolicy
    retry_time: RetryTime
    layer: str
    timeout_s: float | None
    rng: Random
    clock: Callable[[], float]
    tokens: RetryTokenBucket = field(default_factory=RetryTokenBucket)

    async def call(self, bound: functools.partial[Awaitable[R]]) -> R:
        """Return a call's value, or raise the error of its last attempt."""
        name = getattr(bound.func, "__qualname__", repr(bound.func))
        log = AttemptLog(name, bound.keywords.get("idempotency_key"))

        async def attempt() -> Answered[R] | Failed:
            log.attempt += 1
            try:
                async with asyncio.timeout(self.timeout_s):
                    return Answered(await bound())
            except Exception as error:  # noqa: BLE001 -- raised below, if it is the last
                now = self.clock()
                failure = classify(error, layer=self.layer, now=now, in_call=True)
                return Failed(failure, error)

        retries = Retries(self.policy, self.retry_time, self.rng, self.take_token)
        last = call_with_retry(attempt, retries, on_retry=log.emit_retry)
        return answer_of(self.record_end(await last, log))

    def record_end(
        self, end: Answered[R] | Failed, log: AttemptLog
    ) -> Answered[R] | Failed:
        """Record the end of a call, and return it."""
        if isinstance(end, Answered):
            now = asyncio.get_running_loop().time()
            self.tokens.add_success(self.policy.retry_ratio, now)
            log.emit_answer()
            return end
        log.emit_failure(end.envelope)
        if log.doubtful:
            BaseException.__setattr__(end.error, _MAY_HAVE_HAPPENED, True)
        return end

    def take_token(self, _failure: ErrorEnvelope) -> bool:
        """Take a retry from the retry budget; False: it is exhausted."""
        return self.tokens.take(asyncio.get_running_loop().time())


def may_have_happened(error: BaseException) -> bool:
    """Return whether an earlier attempt of the failed call may have been executed."""
    return bool(getattr(error, _MAY_HAVE_HAPPENED, False))


def has_retries(function: Callable[..., Any]) -> bool:
    """Return whether `retry` wraps a function with more than one attempt."""
    return bool(getattr(function, "retries", False))


@dataclass(slots=True)
class AttemptLog:
    """Emits one event for each attempt of a call when it ends.

    Attributes:
        doubtful: Whether a retried attempt may have been executed.
    """

    name: str
    key: object
    attempt: int = 0
    doubtful: bool = False

    def emit_answer(self) -> None:
        """Emit the event of an attempt that succeeded."""
        self._emit("debug", outcome="answered", error_code=None, delay_ms=0)

    def emit_retry(self, failure: ErrorEnvelope, delay: float) -> None:
        """Emit the event of an attempt that is retried."""
        self.doubtful = self.doubtful or not not_executed(failure)
        self.emit_failure(failure, delay)

    def emit_failure(self, failure: ErrorEnvelope, delay: float = 0.0) -> None:
        """Emit the event of an attempt that failed; `delay`: seconds to the next."""
        delay_ms = round(delay * 1000)
        self._emit(None, outcome="failed", error_code=failure.code, delay_ms=delay_ms)

    def _emit(self, level: Level | None, **facts: Any) -> None:
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


# ── circuit breaker around any async function ─────────────────────────────────


def circuit_breaker(
    breaker: CircuitBreaker,
    *,
    name: str,
    layer: Literal["llm", "tool"] = "tool",
    probe_s: float = 60.0,
    rng: Random | None = None,
) -> Callable[[Callable[P, Awaitable[R]]], Callable[P, Awaitable[R]]]:
    """Make calls fail at once while too many of the last calls failed.

    All functions that one `circuit_breaker(...)` wraps share one breaker: make one for
    each service. Put `retry` inside it and `idempotent` outside.

    Args:
        breaker: When the breaker opens, and for how many seconds.
        name: The service's name, for the error's message.
        layer: The first word of the error codes: `llm` or `tool`.
        probe_s: Seconds after which a probe without an answer counts as lost.
        rng: Makes the open periods of several processes differ.

    Raises:
        TransientError: `runtime.breaker.open`, with `retry_after` in seconds: the
            call was not made.
    """
    state = BreakerState(breaker, rng or Random())

    def wrap(function: Callable[P, Awaitable[R]]) -> Callable[P, Awaitable[R]]:
        @functools.wraps(function)
        async def call(*args: P.args, **kwargs: P.kwargs) -> R:
            now = asyncio.get_running_loop().time
            permit = state.request_permit(now(), probe_s)
            if isinstance(permit, Rejected):
                raise breaker_open_error(name, permit.seconds)
            health = Health.UNKNOWN
            try:
                answer = await function(*args, **kwargs)
                health = Health.SUCCESS
                return answer
            except Exception as error:
                health = breaker.health(classify(error, layer=layer, in_call=True))
                raise
            finally:
                state.record_end(permit, health, now())

        return call

    return wrap
