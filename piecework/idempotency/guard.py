"""One guarded call: ask the store, make the call, write what came of it.

begin (wait while it is held) -> the call, cut off at the end of the lease -> settle
"""

from __future__ import annotations

import asyncio
import functools
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from piecework import keys, telemetry, values
from piecework.classify import envelope_of
from piecework.codes import ErrorClass
from piecework.dependency import not_executed
from piecework.errors import PermanentError, StoreError
from piecework.idempotency.operation import KEY, operation, takes_key
from piecework.idempotency.record import Asked, Ended, Granted, Held, State, Verdict
from piecework.idempotency.refusals import refusal
from piecework.idempotency.store import IdempotencyStore
from piecework.idempotency.strategies import Strategy
from piecework.retrying import may_have_happened
from piecework.telemetry.quiet import quiet_log

#: Seconds between two looks at an operation that somebody else is at; then doubled.
FIRST_LOOK_S, LONGEST_LOOK_S = 0.05, 1.0
#: Leases that a duplicate waits: the first call's, and that of who comes after it.
LEASES_WAITED = 2


@dataclass(frozen=True, slots=True)
class Rules:
    """How an operation is guarded; `idempotent` says what each means."""

    operation: str
    scope: str | Callable[..., str]
    by: Strategy
    waits: bool
    repeats: bool
    lease_s: float


@dataclass(frozen=True, slots=True)
class Guard:
    """One function, and the store that is asked before it is called."""

    function: Callable[..., Awaitable[Any]]
    store: IdempotencyStore
    rules: Rules
    rng: Random

    async def call(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        """Return the answer of the call, or of the one before it, as JSON."""
        asked = self.asked(args, kwargs)
        key = {KEY: self.sent_key(asked)} if takes_key(self.function) else {}
        bound = functools.partial(self.function, *args, **{**kwargs, **key})
        try:
            verdict, deadline = await self._begin(asked)
        except StoreError:
            if not self.rules.by.best_effort:
                raise
            return values.encode(self.function, await bound())
        match verdict:
            case Granted(doubtful):
                return await self._carry_out(bound, asked, deadline, doubtful=doubtful)
            case Ended(State.DONE, str(value)):
                telemetry.emit(quiet_log(), "idempotency.replayed", **said_of(asked))
                return value
            case _:
                raise refusal(verdict, asked.slot)

    def asked(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Asked:
        """Return what the store is asked for."""
        rules, fence = self.rules, uuid.UUID(int=self.rng.getrandbits(128)).hex
        called = operation(
            self.function, self.store.tenant, rules.scope, rules.operation, args, kwargs
        )
        slot = rules.by.slot(called)
        return Asked(slot, fence, rules.lease_s, rules.by.ttl_s, rules.repeats)

    def sent_key(self, asked: Asked) -> str:
        """Return the key for the provider.

        After a window the same call is another operation, for the provider, too.
        """
        return asked.fence if self.rules.by.best_effort else asked.slot.name

    async def _begin(self, asked: Asked) -> tuple[Verdict, float]:
        """Return the store's verdict, and the end of our lease on the loop's clock."""
        now = asyncio.get_running_loop().time
        waited_until = now() + LEASES_WAITED * self.rules.lease_s
        pause = FIRST_LOOK_S
        while True:
            deadline = now() + self.rules.lease_s
            verdict = await self.store.begin(asked)
            waits = self.rules.waits and now() < waited_until
            if not isinstance(verdict, Held) or not waits:
                return verdict, deadline
            await asyncio.sleep(self.rng.uniform(pause / 2, pause))
            pause = min(2 * pause, LONGEST_LOOK_S)

    async def _carry_out(
        self,
        bound: functools.partial[Awaitable[Any]],
        asked: Asked,
        deadline: float,
        *,
        doubtful: bool,
    ) -> str:
        """Make the call; who is cancelled in it leaves the lease to run out."""
        try:
            async with asyncio.timeout_at(deadline):
                answer = await bound()
        except Exception as error:
            await self._failed(asked, error, doubtful=doubtful)
            raise
        try:
            value = values.encode(self.function, answer)
        except PermanentError:
            await self._settle(asked, State.DONE)
            raise
        await self._settle(asked, State.DONE, value)
        return value

    async def _failed(self, asked: Asked, error: Exception, *, doubtful: bool) -> None:
        """Write what a failure says; only the other side's plain no says something."""
        failure = envelope_of(error)
        doubtful = doubtful or may_have_happened(error)
        refused = not_executed(failure) and not doubtful
        final = refused and failure.error_class is ErrorClass.PERMANENT
        if final and self.rules.by.remembers_refusals:
            envelope = failure.model_dump_json(exclude_none=True)
            await self._settle(asked, State.REFUSED, envelope)
        else:
            await self._settle(asked, State.RELEASED if refused else State.UNKNOWN)

    async def _settle(
        self, asked: Asked, state: State, value: str | None = None
    ) -> None:
        """Write what came of it; the caller is not robbed of it if that fails."""
        try:
            if await self.store.settle(asked, state, value):
                return
            reason = "begun again"
        except StoreError as error:
            reason = error.code
        facts = {"status": state.value, "reason": reason, **said_of(asked)}
        telemetry.emit(quiet_log(), "idempotency.unrecorded", **facts)


def said_of(asked: Asked) -> dict[str, Any]:
    """Return what the log says of an operation; of its key only a hash."""
    key = keys.sha256(asked.slot.name.encode())[:12]
    return {"operation": asked.slot.operation, "idempotency_key_hash": key}
