"""Carry one call of a stage to the outside world, and pay for it once.

pure      remembered? -> retries -> remember
effect    what became of it? -> intent -> retries -> done
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, TypeVar

import structlog

from piecework import keys, telemetry, values
from piecework.call_counts import CallCounts
from piecework.call_names import CallScope, call_key
from piecework.classify import classify, mark
from piecework.dependency import Dependency, Effect, in_doubt, plainly_refused
from piecework.errors import ErrorEnvelope
from piecework.in_flight import InFlight
from piecework.landing import Landing
from piecework.ports import Begun, Done, Journal, Ledger
from piecework.retry import Retry, RetryBudget, retried

R = TypeVar("R")


@dataclass(slots=True)
class Caller:
    """Makes the calls of one claim.

    Attributes:
        epoch: The generation of the chunk. It is mixed into the keys that providers
            see, so that a redrive is not answered with a stored failure, and not into
            the keys that we look up, so that it finds what is already paid.
        slots: How many calls of the whole worker may be in flight.
        check: Asked right before each call; raises when the claim is not ours any
            more, as after the whole process was frozen.
        lets_land: Whether an effect goes on to its end though its stage is cut off:
            it is about to be undone, and must not happen after that.
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
    check: Callable[[], None] = lambda: None
    lets_land: Callable[[], bool] = lambda: False
    counts: CallCounts = field(default_factory=CallCounts)
    landing: Landing = field(default_factory=Landing)
    in_flight: InFlight = field(init=False)
    _flying: dict[str, asyncio.Future[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Begin with nothing on its way."""
        self.in_flight = InFlight(self.sleep, self.progress)

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

    def turn_back(self) -> None:
        """Begin to undo: with retries of its own, whatever the work has spent."""
        self.counts.forward = False
        self.budget = RetryBudget(self.budget.seconds)

    async def landed(self) -> None:
        """Wait until no call is under way.

        A stage that failed may have left some: their answers are paid for, and no
        effect may land after it was undone.
        """
        while under_way := [*self._flying.values(), *self.landing.tasks]:
            await asyncio.wait(under_way)

    async def to_its_end(self, work: Coroutine[Any, Any, R]) -> R:
        """Do what is not to be cut off half-way, if its stage is about to be undone."""
        return await self.landing.to_its_end(work, self.lets_land)

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
        begun = self.ledger.begin(
            key, scope.stage, dependency.effect, dependency.timeout
        )
        match await begun:
            case Done(answer):
                self.counts.replayed += 1
                self.counts.stages_with_effects.add(scope.stage)
                return answer
            case Begun(epoch, doubtful):
                sent_key = keys.provider_key(key, epoch)
                value = None
                if doubtful:
                    found = await self._look_up(sent_key, dependency, bound)
                    if found is not None:
                        value = values.encode(bound.func, found)
                if value is None:
                    carried_out = self._carry_out(
                        key, sent_key, dependency, bound, doubtful=doubtful
                    )
                    value = await self.to_its_end(carried_out)
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
    ) -> Any:
        """Return what the provider says of an effect; None: it knows of none."""
        if dependency.lookup is None:
            return None
        look_up = functools.partial(dependency.lookup, *bound.args, **bound.keywords)

        async def ask() -> Any:
            async with self.slots, asyncio.timeout(dependency.timeout):
                self.check()
                return await look_up(idempotency_key=sent_key)

        found = await ask()
        if found is None and self.in_flight.seconds:
            await self.in_flight.over()
            found = await ask()
        return found

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
            if not all(map(plainly_refused, failures)):
                # The attempt before may have done it behind its failure.
                found = await self._look_up(sent_key, dependency, bound)
                if found is not None:
                    return found
            async with self.slots:
                asked_at = now()
                try:
                    async with asyncio.timeout(dependency.timeout):
                        self.check()
                        answer = await bound(idempotency_key=sent_key)
                except BaseException as error:
                    self.in_flight.unanswered(dependency, asked_at, error)
                    raise
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
        if self.counts.forward:
            self.counts.ends.append(self.clock())
        return values.encode(bound.func, value)
