"""Make the attempts of one call: within the call limit and a timeout, with retries.

attempt = look up the effect, if an earlier attempt may have caused it
          -> call limit -> circuit breaker -> the user's function
"""

from __future__ import annotations

import asyncio
import functools
from collections import defaultdict
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from random import Random
from typing import Any

import structlog

from piecework import telemetry
from piecework.calls.call import Call, CallAttempts, CallCounts
from piecework.calls.fleet_breaker import BreakerRegistry
from piecework.calls.in_flight import CallPacer, InFlight
from piecework.calls.usage import UsageReporter
from piecework.domain import keys
from piecework.errors import ErrorEnvelope, TransientError
from piecework.errors.classify import mark
from piecework.resilience.breaker import OPEN_CODE, breaker_open_error
from piecework.resilience.retry import (
    Retry,
    RetryBudget,
    RetryTokenBucket,
    budget_exhausted_error,
    call_with_retry,
    not_executed,
)


def new_token_buckets() -> defaultdict[str, RetryTokenBucket]:
    """Return the retry tokens of a process that has just started, by dependency."""
    return defaultdict(RetryTokenBucket)


@dataclass(slots=True)
class Attempts:
    """Makes the attempts of one claim's calls.

    Attributes:
        slots: Limits the calls of the whole worker that are in flight.
        check_lease: Called right before each attempt. It raises if this worker does not
            own the claim any more, as after the whole process was frozen.
        breakers: The breakers of the whole worker; None: calls have no breaker.
        tokens: The retry tokens of the whole worker, by dependency.
        enforce_fleet_budget: Whether a retry needs one of these tokens.
        usage: Reports each answer and what it cost.
        pacer: Spreads the start of the worker's calls over event loop rounds.
    """

    budget: RetryBudget
    slots: AbstractAsyncContextManager[None]
    rng: Random
    clock: Callable[[], float]
    log: structlog.stdlib.BoundLogger
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    progress: Callable[[], None] = lambda: None
    check_lease: Callable[[], None] = lambda: None
    breakers: BreakerRegistry | None = None
    tokens: defaultdict[str, RetryTokenBucket] = field(
        default_factory=new_token_buckets
    )
    enforce_fleet_budget: bool = True
    counts: CallCounts = field(default_factory=CallCounts)
    usage: UsageReporter = field(default_factory=UsageReporter)
    pacer: CallPacer = field(default_factory=CallPacer)
    in_flight: InFlight = field(init=False)

    def __post_init__(self) -> None:
        """Start without any request in flight."""
        self.in_flight = InFlight(self.sleep, self.progress)

    async def make(
        self, call: Call, sent_key: str, failures: list[ErrorEnvelope]
    ) -> str:
        """Return the call's encoded value.

        Failures that are retried, and so not raised, are appended to `failures`.

        Raises:
            TransientError: The fleet allows no further attempt: the breaker is open, or
                the retry budget is exhausted.
            Exception: The error of the last attempt.
        """
        attempts = CallAttempts(call, keys.sha256(sent_key.encode())[:12])

        async def attempt() -> Any:
            if not all(map(not_executed, failures)):
                # An earlier attempt may have been executed in spite of its failure.
                found = await self.look_up(call, sent_key)
                if found is not None:
                    return found
            return await self._attempt(attempts, sent_key)

        def on_retry(retry: Retry) -> None:
            failures.append(retry.envelope)
            self.counts.retried += 1
            self.progress()
            attempts.end(self.log, now(), "failed", retry.envelope, retry.delay)

        now = asyncio.get_running_loop().time
        try:
            value = await call_with_retry(
                attempt,
                call.policy,
                budget=self.budget,
                rng=self.rng,
                sleep=self.sleep,
                classify=lambda error: call.classify(error, self.clock()),
                on_retry=on_retry,
                may_retry=functools.partial(self._may_retry, attempts),
            )
        except Exception as error:
            failure = call.classify(error, self.clock(), attempts.made)
            mark(error, failure)
            attempts.end(self.log, now(), "failed", failure)
            if (limit := self._fleet_limit(attempts, failure)) is not None:
                failures.append(failure)
                telemetry.emit(
                    self.log,
                    "retry.budget_exhausted",
                    dependency=call.dependency.name,
                    error_code=limit.code,
                )
                raise limit from error
            raise
        except BaseException:
            attempts.end(self.log, now(), "cut off")
            raise
        attempts.end(self.log, now(), "answered")
        self.counts.made += 1
        self.usage.report_paid(call, value, self.counts)
        if self.counts.forward:
            self.counts.end_times.append(self.clock())
        return call.encode(value)

    def _may_retry(self, attempts: CallAttempts) -> bool:
        """Take a retry token, unless the breaker would reject the retry."""
        dependency = attempts.call.dependency
        if self._rejected_for_s(dependency.name) is not None:
            return False
        taken = self.tokens[dependency.name].take(self.clock())
        attempts.budget_exhausted = self.enforce_fleet_budget and not taken
        return not attempts.budget_exhausted

    def _fleet_limit(
        self, attempts: CallAttempts, failure: ErrorEnvelope
    ) -> TransientError | None:
        """Return the error to raise if the fleet, not the call, ended the retries."""
        name = attempts.call.dependency.name
        if not failure.retryable or failure.code == OPEN_CODE:
            return None
        seconds = self._rejected_for_s(name)
        if seconds is not None:
            return breaker_open_error(name, seconds)
        if attempts.budget_exhausted:
            return budget_exhausted_error(name, failure.retry_after)
        return None

    def _rejected_for_s(self, name: str) -> float | None:
        return None if self.breakers is None else self.breakers.rejected_for_s(name)

    async def look_up(self, call: Call, sent_key: str) -> Any:
        """Return what the provider knows of an effect; None: nothing.

        If the provider knows nothing while a request may still be in flight, the
        lookup is repeated once that request cannot be executed any more.
        """
        lookup = call.dependency.lookup
        if lookup is None:
            return None
        look_up = functools.partial(lookup, *call.bound.args, **call.bound.keywords)

        async def request() -> Any:
            async with self.slots, self._guard(call):
                async with asyncio.timeout(call.dependency.timeout):
                    self.check_lease()
                    return await look_up(idempotency_key=sent_key)

        found = await request()
        if found is None and self.in_flight.remaining_s:
            await self.in_flight.wait()
            found = await request()
        return found

    async def _attempt(self, attempts: CallAttempts, sent_key: str) -> Any:
        call, now = attempts.call, asyncio.get_running_loop().time
        async with self.slots, self._guard(call):
            sent_at = now()
            attempts.begin(sent_at)
            try:
                async with asyncio.timeout(call.dependency.timeout):
                    self.check_lease()
                    answer = await call.bound(idempotency_key=sent_key)
            except BaseException as error:
                self.counts.failed += 1
                self.in_flight.note_failure(call.dependency, sent_at, error)
                raise
        tokens = self.tokens[call.dependency.name]
        tokens.add_success(call.policy.retry_ratio, self.clock())
        return answer

    def _guard(self, call: Call) -> AbstractAsyncContextManager[None]:
        """Return the breaker's guard. The call already has its slot.

        Raises:
            TransientError: `runtime.breaker.open`, on entry.
        """
        if self.breakers is None:
            return nullcontext()
        return self.breakers.guard(
            call.dependency, lambda error: call.classify(error, self.clock())
        )
