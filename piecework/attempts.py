"""Make the attempts of one call: each in its slot and its time, retried, told of.

make = (look up what a failed one may have done -> slot -> ask) with retries
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import structlog

from piecework import keys, telemetry, values
from piecework.call_counts import CallCounts
from piecework.call_names import CallScope
from piecework.classify import classify, mark
from piecework.dependency import Dependency, Effect, plainly_refused
from piecework.errors import ErrorEnvelope
from piecework.in_flight import InFlight
from piecework.retry import Retry, RetryBudget, RetryPolicy, retried


@dataclass(frozen=True, slots=True)
class Call:
    """A call that a stage asks for.

    Attributes:
        key: Under which its value is remembered.
        bound: The function with its arguments; `idempotency_key` is still to come.
    """

    key: str
    scope: CallScope
    dependency: Dependency
    bound: functools.partial[Awaitable[Any]]

    @property
    def policy(self) -> RetryPolicy:
        """How it is tried again: not at all, if nobody could tell what it did."""
        policy = self.dependency.retry
        once = self.dependency.effect is Effect.NON_IDEMPOTENT
        return replace(policy, attempts=1) if once else policy

    def encode(self, value: Any) -> str:
        """Return its value as it is remembered."""
        return values.encode(self.bound.func, value)


@dataclass(slots=True)
class Attempts:
    """Makes the attempts of one claim's calls.

    Attributes:
        slots: How many calls of the whole worker may be in flight.
        check: Asked right before each call; raises when the claim is not ours any
            more, as after the whole process was frozen.
    """

    budget: RetryBudget
    slots: asyncio.Semaphore
    rng: Random
    clock: Callable[[], float]
    log: structlog.stdlib.BoundLogger
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    progress: Callable[[], None] = lambda: None
    check: Callable[[], None] = lambda: None
    counts: CallCounts = field(default_factory=CallCounts)
    in_flight: InFlight = field(init=False)

    def __post_init__(self) -> None:
        """Begin with nothing on its way."""
        self.in_flight = InFlight(self.sleep, self.progress)

    async def make(
        self, call: Call, sent_key: str, failures: list[ErrorEnvelope]
    ) -> str:
        """Return the call's value; failures that were tried again go into the list.

        Raises:
            Exception: What the last attempt raised.
        """

        async def attempt() -> Any:
            if not all(map(plainly_refused, failures)):
                # The attempt before may have done it behind its failure.
                found = await self.look_up(call, sent_key)
                if found is not None:
                    return found
            return await self._ask(call, sent_key)

        def note(retry: Retry) -> None:
            failures.append(retry.envelope)
            self._tell(call, sent_key, retry)

        layer = call.dependency.layer
        try:
            value = await retried(
                attempt,
                call.policy,
                budget=self.budget,
                rng=self.rng,
                sleep=self.sleep,
                classify=lambda error: classify(error, layer=layer, now=self.clock()),
                on_retry=note,
            )
        except Exception as error:
            mark(error, layer)
            raise
        self.counts.made += 1
        if self.counts.forward:
            self.counts.ends.append(self.clock())
        return call.encode(value)

    async def look_up(self, call: Call, sent_key: str) -> Any:
        """Return what the provider says of an effect; None: it knows of none."""
        lookup = call.dependency.lookup
        if lookup is None:
            return None
        look_up = functools.partial(lookup, *call.bound.args, **call.bound.keywords)

        async def ask() -> Any:
            async with self.slots, asyncio.timeout(call.dependency.timeout):
                self.check()
                return await look_up(idempotency_key=sent_key)

        found = await ask()
        if found is None and self.in_flight.seconds:
            await self.in_flight.over()
            found = await ask()
        return found

    async def _ask(self, call: Call, sent_key: str) -> Any:
        now = asyncio.get_running_loop().time
        async with self.slots:
            asked_at = now()
            try:
                async with asyncio.timeout(call.dependency.timeout):
                    self.check()
                    answer = await call.bound(idempotency_key=sent_key)
            except BaseException as error:
                self.in_flight.unanswered(call.dependency, asked_at, error)
                raise
        telemetry.emit(
            self.log,
            "call.made",
            dependency=call.dependency.name,
            duration_ms=round((now() - asked_at) * 1000),
        )
        return answer

    def _tell(self, call: Call, sent_key: str, retry: Retry) -> None:
        self.counts.retried += 1
        self.progress()
        telemetry.emit(
            self.log,
            "call.attempt",
            dependency=call.dependency.name,
            error_code=retry.envelope.code,
            attempt_number=retry.attempt,
            delay_ms=round(retry.delay * 1000),
            idempotency_key_hash=keys.sha256(sent_key.encode())[:12],
        )
