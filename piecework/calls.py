"""Carry one call of a stage to the outside world, and pay for it once.

chain     who of it has not refused? -> pure or effect
pure      remembered? -> shared by another job? -> attempts -> remember
effect    what became of it? -> intent -> attempts -> done
"""

from __future__ import annotations

import asyncio
import functools
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from piecework import keys, values
from piecework.attempts import Attempts
from piecework.breaker import OPEN_CODE
from piecework.call import Call
from piecework.call_counts import CallCounts
from piecework.call_names import CallScope, call_key
from piecework.classify import classify
from piecework.dependency import Dependency, Effect, in_doubt, not_executed
from piecework.errors import ErrorEnvelope, StoreError
from piecework.falling_back import FallbackUsed, by_chain
from piecework.in_flight import InFlight
from piecework.ports import (
    AlreadyDone,
    ClaimLostError,
    Journal,
    Ledger,
    NoResponseCache,
    Proceed,
    ResponseCache,
)
from piecework.recovery import MAX_DEFERRALS

R = TypeVar("R")

#: Questions and answers that are remembered, so that no error's message quotes them.
HEARD = 64


@dataclass(slots=True)
class Caller:
    """Makes the calls of one claim.

    Attributes:
        epoch: The generation of the chunk. It is mixed into the keys that providers
            see, so that a redrive is not answered with a stored failure, and not into
            the keys that we look up, so that it finds what is already paid.
        heard: What the last calls were asked, and what they answered.
        fallbacks_used: The calls that a fallback has answered, by call key.
        ended_by: A call found the claim lost, or our tables out of order: that is no
            answer, and a stage that takes it for one must not go on.
        lets_land: Whether an effect goes on to its end though its stage is cut off:
            it is about to be undone, and must not happen after that.
    """

    journal: Journal
    ledger: Ledger
    epoch: int
    attempts: Attempts
    lets_land: Callable[[], bool] = lambda: False
    ended_by: ClaimLostError | StoreError | None = None
    responses: ResponseCache = field(default_factory=NoResponseCache)
    landing: Landing = field(default_factory=Landing)
    heard: deque[Any] = field(default_factory=lambda: deque(maxlen=HEARD))
    fallbacks_used: dict[str, FallbackUsed] = field(default_factory=dict)
    _flying: dict[str, asyncio.Future[str]] = field(default_factory=dict)
    _coming: int = 0

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
        await self._turn()
        if self.ended_by is not None:
            raise self.ended_by
        key = call_key(scope, dependency, function, args, kwargs)
        while (shared := self._flying.get(key)) is not None:
            await asyncio.wait([shared])
            if not shared.cancelled():
                return values.decode(function, shared.result())
        flight = self._flying[key] = asyncio.get_running_loop().create_future()
        bound = functools.partial(function, *args, **kwargs)
        self.heard.append((args, kwargs))
        try:
            call = Call(key, scope, dependency, bound)
            chain = bool(dependency.fallback)
            value = await (by_chain(self, call) if chain else self.value_of(call))
            self.heard.append(value)
            flight.set_result(value)
        except asyncio.CancelledError:
            flight.cancel()
            raise
        except BaseException as error:
            if isinstance(error, ClaimLostError | StoreError):
                self.ended_by = error
            flight.set_exception(error)
            flight.exception()  # raised right here; the future may have no reader
            del flight  # it and the error would hold each other, and all that was asked
            raise
        finally:
            del self._flying[key]
            self.progress()
        return values.decode(function, flight.result())

    async def _turn(self) -> None:
        """Let those begin that were asked for before; it is under way all the same."""
        self._coming += 1
        try:
            await self.attempts.rounds.turn()
        finally:
            self._coming -= 1

    async def value_of(self, call: Call) -> str:
        """Return what the call's own dependency answers, or has answered."""
        if call.dependency.effect is not Effect.PURE:
            return await self._effect(call)
        if (remembered := self.journal.recall(call.key)) is not None:
            self.counts.replayed += 1
            self.attempts.spending.spared(call, remembered, "replayed")
            return remembered
        if (value := await shared(self.responses, call)) is not None:
            self.counts.cached += 1
            self.attempts.spending.spared(call, value, "cached")
            await self.journal.record(call.key, value)
            return value
        sent_key = keys.provider_key(call.key, self.epoch)
        value = await self.attempts.make(call, sent_key, [])
        await self.journal.record(call.key, value)
        await share(self.responses, call, value)
        return value

    async def _effect(self, call: Call) -> str:
        dependency = call.dependency
        begun = self.ledger.begin(
            call.key, call.scope.stage, dependency.effect, dependency.timeout
        )
        match await begun:
            case AlreadyDone(answer):
                self.counts.replayed += 1
                self.attempts.spending.spared(call, answer, "replayed")
                return answer
            case Proceed(epoch, doubtful, seconds):
                if doubtful and dependency.may_have_forgotten(seconds):
                    await self.ledger.mark_unknown(call.key)
                    raise in_doubt(dependency, call.bound.func)
                sent_key = keys.provider_key(call.key, epoch)
                found = None
                if doubtful:
                    found = await self.attempts.look_up(call, sent_key)
                if found is None:
                    carried_out = self._carry_out(call, sent_key, doubtful=doubtful)
                    value = await self.to_its_end(carried_out)
                else:
                    value = call.encode(found)
                    await self.ledger.finish(call.key, value)
                return value
            case _:
                raise in_doubt(dependency, call.bound.func)

    async def _carry_out(self, call: Call, sent_key: str, *, doubtful: bool) -> str:
        """Make the attempts of an effect, and record what is known of it then.

        It was refused only if every attempt was: a time-out may hide an effect.
        """
        dependency, earlier = call.dependency, list[ErrorEnvelope]()
        try:
            value = await self.attempts.make(call, sent_key, earlier)
        except Exception as error:
            failures = [*earlier, classify(error, layer=dependency.layer)]
            sent = [failure for failure in failures if failure.code != OPEN_CODE]
            if not doubtful and all(map(not_executed, sent)):
                await self.ledger.mark_refused(call.key)
            elif dependency.effect is Effect.NON_IDEMPOTENT:
                await self.ledger.mark_unknown(call.key)
                raise in_doubt(dependency, call.bound.func) from error
            raise
        await self.ledger.finish(call.key, value)
        return value

    async def to_its_end(self, work: Coroutine[Any, Any, R]) -> R:
        """Do what is not to be cut off half-way, if its stage is about to be undone."""
        return await self.landing.to_its_end(work, self.lets_land)

    async def landed(self) -> None:
        """Wait until no call is under way.

        A stage that failed may have left some: their answers are paid for, and no
        effect may land after it was undone.
        """
        while (under_way := self._under_way()) or self._coming:
            # Who comes has its turn within a few rounds of the loop.
            await (asyncio.wait(under_way) if under_way else asyncio.sleep(0))

    def _under_way(self) -> list[asyncio.Future[Any]]:
        return [*self._flying.values(), *self.landing.tasks]

    def turn_back(self) -> None:
        """Begin to undo: with retries of its own, whatever the work has spent.

        Who has waited often enough for one of the fleet's does without them from now
        on: what never works has to come to its end.
        """
        self.counts.forward = False
        self.attempts.budget = replace(self.attempts.budget, spent=0.0)
        self.attempts.enforce_fleet_budget = self.counts.parks < MAX_DEFERRALS

    def progress(self) -> None:
        """Say that the stage is alive."""
        self.attempts.progress()

    @property
    def counts(self) -> CallCounts:
        """What was spent on calls so far."""
        return self.attempts.counts

    @property
    def in_flight(self) -> InFlight:
        """What may still be carried out somewhere."""
        return self.attempts.in_flight
