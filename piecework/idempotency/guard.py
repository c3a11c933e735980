"""Execute one guarded call: begin in the store, make the call, record the outcome.

begin (wait while an equal call is in progress) -> the call, until the lease ends
-> settle
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
from piecework.idempotency.operation import KEY, operation_of, takes_key
from piecework.idempotency.record import (
    BeginRequest,
    Ended,
    Granted,
    InProgress,
    State,
    Verdict,
)
from piecework.idempotency.refusals import refusal
from piecework.idempotency.store import IdempotencyStore
from piecework.idempotency.strategies import Strategy
from piecework.retrying import may_have_happened
from piecework.telemetry.quiet import quiet_log

#: Seconds between two polls of an operation that is in progress; they double each time.
FIRST_POLL_S, MAX_POLL_S = 0.05, 1.0
#: Leases that a duplicate waits: that of the first call, and that of its successor.
WAITED_LEASES = 2


@dataclass(frozen=True, slots=True)
class Rules:
    """The arguments of `idempotent`, which explains them."""

    operation: str
    scope: str | Callable[..., str]
    by: Strategy
    waits: bool
    repeatable: bool
    lease_s: float


@dataclass(frozen=True, slots=True)
class Guard:
    """A function, and the store in which its calls begin."""

    function: Callable[..., Awaitable[Any]]
    store: IdempotencyStore
    rules: Rules
    rng: Random

    async def call(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        """Return the answer of this call or of an earlier equal one, as JSON."""
        request = self.begin_request(args, kwargs)
        key = {KEY: self.sent_key(request)} if takes_key(self.function) else {}
        bound = functools.partial(self.function, *args, **{**kwargs, **key})
        try:
            verdict, deadline = await self._begin(request)
        except StoreError:
            if not self.rules.by.best_effort:
                raise
            return values.encode(self.function, await bound())
        match verdict:
            case Granted(doubtful):
                return await self._execute(bound, request, deadline, doubtful=doubtful)
            case Ended(State.DONE, str(value)):
                facts = event_fields(request)
                telemetry.emit(quiet_log(), "idempotency.replayed", **facts)
                return value
            case _:
                raise refusal(verdict, request.slot)

    def begin_request(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> BeginRequest:
        """Return the request to begin a call, with a new owner token."""
        rules, owner_token = self.rules, uuid.UUID(int=self.rng.getrandbits(128)).hex
        operation = operation_of(
            self.function, self.store.tenant, rules.scope, rules.operation, args, kwargs
        )
        slot = rules.by.slot(operation)
        return BeginRequest(
            slot, owner_token, rules.lease_s, rules.by.ttl_s, rules.repeatable
        )

    def sent_key(self, request: BeginRequest) -> str:
        """Return the key for the provider.

        With a time window, the same call after the window is another operation. The
        provider must see another key for it.
        """
        return request.owner_token if self.rules.by.best_effort else request.slot.name

    async def _begin(self, request: BeginRequest) -> tuple[Verdict, float]:
        """Return the store's verdict, and the end of the lease in loop time."""
        now = asyncio.get_running_loop().time
        wait_until = now() + WAITED_LEASES * self.rules.lease_s
        pause = FIRST_POLL_S
        while True:
            deadline = now() + self.rules.lease_s
            verdict = await self.store.begin(request)
            waits = self.rules.waits and now() < wait_until
            if not isinstance(verdict, InProgress) or not waits:
                return verdict, deadline
            await asyncio.sleep(self.rng.uniform(pause / 2, pause))
            pause = min(2 * pause, MAX_POLL_S)

    async def _execute(
        self,
        bound: functools.partial[Awaitable[Any]],
        request: BeginRequest,
        deadline: float,
        *,
        doubtful: bool,
    ) -> str:
        """Make the call. If it is cancelled, its lease stays until its end."""
        try:
            async with asyncio.timeout_at(deadline):
                answer = await bound()
        except Exception as error:
            await self._settle_failure(request, error, doubtful=doubtful)
            raise
        try:
            value = values.encode(self.function, answer)
        except PermanentError:
            await self._settle(request, State.DONE)
            raise
        await self._settle(request, State.DONE, value)
        return value

    async def _settle_failure(
        self, request: BeginRequest, error: Exception, *, doubtful: bool
    ) -> None:
        """Record a failure; only a refusal proves that the call did not happen."""
        failure = envelope_of(error)
        doubtful = doubtful or may_have_happened(error)
        refused = not_executed(failure) and not doubtful
        final = refused and failure.error_class is ErrorClass.PERMANENT
        if final and self.rules.by.remembers_refusals:
            envelope = failure.model_dump_json(exclude_none=True)
            await self._settle(request, State.REFUSED, envelope)
        else:
            await self._settle(request, State.RELEASED if refused else State.UNKNOWN)

    async def _settle(
        self, request: BeginRequest, state: State, value: str | None = None
    ) -> None:
        """Record the outcome. If that fails, the caller still receives the answer."""
        try:
            if await self.store.settle(request, state, value):
                return
            reason = "begun again"
        except StoreError as error:
            reason = error.code
        facts = {"status": state.value, "reason": reason, **event_fields(request)}
        telemetry.emit(quiet_log(), "idempotency.unrecorded", **facts)


def event_fields(request: BeginRequest) -> dict[str, Any]:
    """Return the fields of an operation's events; the key is hashed."""
    key = keys.sha256(request.slot.name.encode())[:12]
    return {"operation": request.slot.operation, "idempotency_key_hash": key}
