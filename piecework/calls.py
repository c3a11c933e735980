"""Carry one call of a stage to the outside world, and pay for it once.

pure      remembered? -> retries -> remember
effect    what became of it? -> intent -> retries -> done
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import structlog

from piecework import keys, telemetry, values
from piecework.call_names import CallScope, call_key
from piecework.classify import classify, mark
from piecework.dependency import Dependency, Effect, in_doubt, plainly_refused
from piecework.errors import ErrorEnvelope
from piecework.ports import Begun, Done, Journal, Ledger
from piecework.retry import Retry, RetryBudget, retried


@dataclass(slots=True)
class CallCounts:
    """What a claim spent on calls, and which stages left something behind."""

    made: int = 0
    replayed: int = 0
    retried: int = 0
    stages_with_effects: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Caller:
    """Makes the calls of one claim.

    Attributes:
        epoch: The generation of the chunk. It is mixed into the keys that providers
            see, so that a redrive is not answered with a stored failure, and not into
            the keys that we look up, so that it finds what is already paid.
        slots: How many calls of the whole worker may be in flight.
    """

    journal: Journal
    ledger: Ledger
    epoch: int
    budget: RetryBudget
    slots: asyncio.Semaphore
    rng: Random
    clock: Callable[[], float]
    log: structlog.stdlib.BoundLogger
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    progress: Callable[[], None] = lambda: None
    counts: CallCounts = field(default_factory=CallCounts)
    _flying: dict[str, asyncio.Future[str]] = field(default_factory=dict)

    async def call(
        self,
        scope: CallScope,
        dependency: Dependency,
        function: Callable[..., Awaitable[Any]],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
    ) -> Any:
        """Return the call's value; equal calls that are under way share one.

        If the first caller is cancelled, one of the others makes the call instead.
        """
        key = call_key(scope, dependency, function, args, kwargs)
        while (shared := self._flying.get(key)) is not None:
            await asyncio.wait([shared])
            if not shared.cancelled():
                return values.decode(function, shared.result())
        flight = self._flying[key] = asyncio.get_running_loop().create_future()
        bound = functools.partial(function, *args, **kwargs)
        try:
            flight.set_result(await self._value(key, scope, dependency, bound))
        except asyncio.CancelledError:
            flight.cancel()
            raise
        except BaseException as error:
            flight.set_exception(error)
            flight.exception()  # raised right here; the future may have no reader
            raise
        finally:
            del self._flying[key]
            self.progress()
        return values.decode(function, flight.result())

    async def landed(self) -> None:
        """Wait until no call is under way.

        A stage that failed may have left some: their answers are paid for, and no
        effect may land after it was undone.
        """
        while self._flying:
            await asyncio.wait(self._flying.values())

    async def _value(
        self,
        key: str,
        scope: CallScope,
        dependency: Dependency,
        bound: functools.partial[Awaitable[Any]],
    ) -> str:
        if dependency.effect is not Effect.PURE:
            return await self._effect(key, scope, dependency, bound)
        if (remembered := self.journal.recall(key)) is not None:
            self.counts.replayed += 1
            return remembered
        sent_key = keys.provider_key(key, self.epoch)
        value = await self._attempts(sent_key, dependency, bound, [])
        await self.journal.record(key, value)
        return value

    async def _effect(
        self,
        key: str,
        scope: CallScope,
        dependency: Dependency,
        bound: functools.partial[Awaitable[Any]],
    ) -> str:
        match await self.ledger.begin(key, scope.stage, dependency.effect):
            case Done(answer):
                self.counts.replayed += 1
                self.counts.stages_with_effects.add(scope.stage)
                return answer
            case Begun(epoch, doubtful):
                sent_key = keys.provider_key(key, epoch)
                value = None
                if doubtful:
                    value = await self._look_up(sent_key, dependency, bound)
                if value is None:
                    value = await self._carry_out(
                        key, sent_key, dependency, bound, doubtful=doubtful
                    )
                await self.ledger.finish(key, value)
                self.counts.stages_with_effects.add(scope.stage)
                return value
            case _:
                raise in_doubt(dependency, bound.func)

    async def _carry_out(
        self,
        key: str,
        sent_key: str,
        dependency: Dependency,
        bound: functools.partial[Awaitable[Any]],
        *,
        doubtful: bool,
    ) -> str:
        """Make the attempts of an effect; on failure record what is known of it.

        It was refused only if every attempt was: a time-out may hide an effect.
        """
        earlier: list[ErrorEnvelope] = []
        try:
            return await self._attempts(sent_key, dependency, bound, earlier)
        except Exception as error:
            failures = [*earlier, classify(error, layer=dependency.layer)]
            if not doubtful and all(map(plainly_refused, failures)):
                await self.ledger.refuse(key)
            elif dependency.effect is Effect.NON_IDEMPOTENT:
                await self.ledger.doubt(key)
                raise in_doubt(dependency, bound.func) from error
            raise

    async def _look_up(
        self,
        sent_key: str,
        dependency: Dependency,
        bound: functools.partial[Awaitable[Any]],
    ) -> str | None:
        if dependency.lookup is None:
            return None
        look_up = functools.partial(dependency.lookup, *bound.args, **bound.keywords)
        async with self.slots, asyncio.timeout(dependency.timeout):
            found = await look_up(idempotency_key=sent_key)
        return None if found is None else values.encode(bound.func, found)

    async def _attempts(
        self,
        sent_key: str,
        dependency: Dependency,
        bound: functools.partial[Awaitable[Any]],
        failures: list[ErrorEnvelope],
    ) -> str:
        once = dependency.effect is Effect.NON_IDEMPOTENT

        async def attempt() -> Any:
            now = asyncio.get_running_loop().time
            async with self.slots, asyncio.timeout(dependency.timeout):
                asked_at = now()
                answer = await bound(idempotency_key=sent_key)
            spent = {"duration_ms": round((now() - asked_at) * 1000)}
            telemetry.emit(self.log, "call.made", dependency=dependency.name, **spent)
            return answer

        def note(retry: Retry) -> None:
            self.counts.retried += 1
            failures.append(retry.envelope)
            self.progress()
            telemetry.emit(
                self.log,
                "call.attempt",
                dependency=dependency.name,
                error_code=retry.envelope.code,
                attempt_number=retry.attempt,
                delay_ms=round(retry.delay * 1000),
                idempotency_key_hash=keys.sha256(sent_key.encode())[:12],
            )

        try:
            value = await retried(
                attempt,
                replace(dependency.retry, attempts=1) if once else dependency.retry,
                budget=self.budget,
                rng=self.rng,
                sleep=self.sleep,
                classify=lambda error: classify(
                    error, layer=dependency.layer, now=self.clock()
                ),
                on_retry=note,
            )
        except Exception as error:
            mark(error, dependency.layer)
            raise
        self.counts.made += 1
        return values.encode(bound.func, value)
