"""Make the attempts of one call: each in its slot and its time, retried, told of.

make = (look up what a failed one may have done -> slot -> breaker -> ask) with retries
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

from piecework import keys, telemetry
from piecework.breaker import OPEN_CODE, breaker_open_error
from piecework.call import Call, Tries
from piecework.call_counts import CallCounts
from piecework.circuits import BreakerRegistry
from piecework.classify import mark
from piecework.dependency import not_executed
from piecework.errors import ErrorEnvelope, TransientError
from piecework.in_flight import InFlight
from piecework.retry import Retry, RetryBudget, retried
from piecework.retry_tokens import RetryTokenBucket, spent


def new_token_buckets() -> defaultdict[str, RetryTokenBucket]:
    """Return what a process has that has not retried anything, by dependency."""
    return defaultdict(RetryTokenBucket)


@dataclass(slots=True)
class Attempts:
    """Makes the attempts of one claim's calls.

    Attributes:
        slots: How many calls of the whole worker may be in flight.
        check: Asked right before each call; raises when the claim is not ours any
            more, as after the whole process was frozen.
        breakers: The breakers of the whole worker; None: none is asked.
        tokens: The retries that the whole worker has left, by dependency.
        enforce_fleet_budget: Whether no more retries are made than those.
        spending: Told of each answer, and of what it cost.
        rounds: In which the calls of the whole worker begin.
    """

    budget: RetryBudget
    slots: AbstractAsyncContextManager[None]
    rng: Random
    clock: Callable[[], float]
    log: structlog.stdlib.BoundLogger
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    progress: Callable[[], None] = lambda: None
    check: Callable[[], None] = lambda: None
    breakers: BreakerRegistry | None = None
    tokens: defaultdict[str, RetryTokenBucket] = field(
        default_factory=new_token_buckets
    )
    enforce_fleet_budget: bool = True
    counts: CallCounts = field(default_factory=CallCounts)
    spending: Spending = field(default_factory=Spending)
    rounds: Rounds = field(default_factory=Rounds)
    in_flight: InFlight = field(init=False)

    def __post_init__(self) -> None:
        """Begin with nothing on its way."""
        self.in_flight = InFlight(self.sleep, self.progress)

    async def make(
        self, call: Call, sent_key: str, failures: list[ErrorEnvelope]
    ) -> str:
        """Return the call's value; failures that are not raised go into the list.

        Raises:
            Exception: What the last attempt raised, or why there is no further one.
        """
        tries = Tries(call, keys.sha256(sent_key.encode())[:12])

        async def attempt() -> Any:
            if not all(map(not_executed, failures)):
                # The attempt before may have done it behind its failure.
                found = await self.look_up(call, sent_key)
                if found is not None:
                    return found
            return await self._ask(tries, sent_key)

        def note(retry: Retry) -> None:
            failures.append(retry.envelope)
            self.counts.retried += 1
            self.progress()
            tries.ended(self.log, now(), "failed", retry.envelope, retry.delay)

        now = asyncio.get_running_loop().time
        try:
            value = await retried(
                attempt,
                call.policy,
                budget=self.budget,
                rng=self.rng,
                sleep=self.sleep,
                classify=lambda error: call.judge(error, self.clock()),
                on_retry=note,
                may_retry=functools.partial(self._may_retry, tries),
            )
        except Exception as error:
            failure = call.judge(error, self.clock(), tries.made)
            mark(error, failure)
            tries.ended(self.log, now(), "failed", failure)
            if (instead := self._instead(tries, failure)) is not None:
                failures.append(failure)
                name, code = call.dependency.name, instead.code
                telemetry.emit(
                    self.log, "retry.budget_exhausted", dependency=name, error_code=code
                )
                raise instead from error
            raise
        except BaseException:
            tries.ended(self.log, now(), "cut off")
            raise
        tries.ended(self.log, now(), "answered")
        self.counts.made += 1
        self.spending.paid(call, value, self.counts)
        if self.counts.forward:
            self.counts.end_times.append(self.clock())
        return call.encode(value)

    def _may_retry(self, tries: Tries) -> bool:
        """Take a retry from what the fleet may spend, unless the breaker refuses it."""
        dependency = tries.call.dependency
        if (
            self.breakers is not None
            and self.breakers.rejected_for_s(dependency) is not None
        ):
            return False
        taken = self.tokens[dependency.name].take(self.clock())
        tries.spent = self.enforce_fleet_budget and not taken
        return not tries.spent

    def _instead(self, tries: Tries, failure: ErrorEnvelope) -> TransientError | None:
        """Return what is raised where the fleet, not the call, ends the retries."""
        dependency = tries.call.dependency
        if not failure.retryable or failure.code == OPEN_CODE:
            return None
        seconds = (
            None if self.breakers is None else self.breakers.rejected_for_s(dependency)
        )
        if seconds is not None:
            return breaker_open_error(dependency.name, seconds)
        return spent(dependency.name, failure.retry_after) if tries.spent else None

    async def look_up(self, call: Call, sent_key: str) -> Any:
        """Return what the provider says of an effect; None: it knows of none."""
        lookup = call.dependency.lookup
        if lookup is None:
            return None
        look_up = functools.partial(lookup, *call.bound.args, **call.bound.keywords)

        async def ask() -> Any:
            async with self.slots, self._guard(call):
                async with asyncio.timeout(call.dependency.timeout):
                    self.check()
                    return await look_up(idempotency_key=sent_key)

        found = await ask()
        if found is None and self.in_flight.remaining_s:
            await self.in_flight.wait()
            found = await ask()
        return found

    async def _ask(self, tries: Tries, sent_key: str) -> Any:
        call, now = tries.call, asyncio.get_running_loop().time
        async with self.slots, self._guard(call):
            asked_at = now()
            tries.begin(asked_at)
            try:
                async with asyncio.timeout(call.dependency.timeout):
                    self.check()
                    answer = await call.bound(idempotency_key=sent_key)
            except BaseException as error:
                self.counts.failed += 1
                self.in_flight.note_failure(call.dependency, asked_at, error)
                raise
        tokens = self.tokens[call.dependency.name]
        tokens.succeeded(call.policy.retry_ratio, self.clock())
        return answer

    def _guard(self, call: Call) -> AbstractAsyncContextManager[None]:
        """Return what asks the breaker; for a call that has a slot.

        Raises:
            TransientError: `runtime.breaker.open`.
        """
        if self.breakers is None:
            return nullcontext()
        return self.breakers.guard(
            call.dependency, lambda error: call.judge(error, self.clock())
        )
