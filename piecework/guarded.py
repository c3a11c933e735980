"""A circuit breaker around any async function; of this process alone."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable
from random import Random
from typing import Literal, ParamSpec, TypeVar

from piecework.breaker import Breaker, Circuit, Health, Wait, refusal
from piecework.classify import classify

P = ParamSpec("P")
R = TypeVar("R")


def guarded(
    breaker: Breaker,
    *,
    name: str,
    layer: Literal["llm", "tool"] = "tool",
    probe_s: float = 60.0,
    rng: Random | None = None,
) -> Callable[[Callable[P, Awaitable[R]]], Callable[P, Awaitable[R]]]:
    """Make calls fail at once while too many of the last ones failed.

    The functions that one `guarded(...)` wraps share one breaker: make one for each
    service. Retries belong inside it, `idempotent` outside.

    Args:
        breaker: When it opens, and for how many seconds.
        name: The service's, for the error's message.
        layer: The first word of the error codes: `llm` or `tool`.
        probe_s: Seconds after which a probe without an answer counts as lost.
        rng: Spreads the times for which breakers are open.

    Raises:
        TransientError: `runtime.breaker.open`, with `retry_after` in seconds: the
            call was not made.
    """
    circuit = Circuit(breaker, rng or Random())

    def wrap(function: Callable[P, Awaitable[R]]) -> Callable[P, Awaitable[R]]:
        @functools.wraps(function)
        async def call(*args: P.args, **kwargs: P.kwargs) -> R:
            now = asyncio.get_running_loop().time
            passage = circuit.ask(now(), probe_s)
            if isinstance(passage, Wait):
                raise refusal(name, passage.seconds)
            health = Health.UNKNOWN
            try:
                answer = await function(*args, **kwargs)
                health = Health.WELL
                return answer
            except Exception as error:
                health = breaker.health(classify(error, layer=layer))
                raise
            finally:
                circuit.ended(passage, health, now())

        return call

    return wrap
