"""A circuit breaker around any async function, for one process only."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable
from random import Random
from typing import Literal, ParamSpec, TypeVar

from piecework.breaker import (
    BreakerState,
    CircuitBreaker,
    Health,
    Rejected,
    breaker_open_error,
)
from piecework.classify import classify

P = ParamSpec("P")
R = TypeVar("R")


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
                health = breaker.health(classify(error, layer=layer))
                raise
            finally:
                state.record_end(permit, health, now())

        return call

    return wrap
