"""`idempotent`: make an async function execute the same operation once."""

from __future__ import annotations

import asyncio
import functools
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, Literal, ParamSpec, Protocol, TypeVar, cast

from piecework import telemetry
from piecework.domain import keys, values
from piecework.domain.identity import operation_name
from piecework.domain.result_types import require_kept, result_type
from piecework.errors import (
    ErrorEnvelope,
    PermanentError,
    PieceworkError,
    StoreError,
    TransientError,
    UsageError,
)
from piecework.errors.classify import classify, noted
from piecework.errors.codes import REGISTRY, ErrorClass
from piecework.idempotency.record import (
    BeginRequest,
    Ended,
    Granted,
    InDoubt,
    InProgress,
    Mismatch,
    OperationRef,
    OutOfOrder,
    State,
    Verdict,
)
from piecework.idempotency.stores import IdempotencyStore
from piecework.idempotency.strategies import (
    KEY,
    ByKey,
    Strategy,
    check_seconds,
    operation_of,
    takes_key,
)
from piecework.resilience.decorators import has_retries, may_have_happened
from piecework.resilience.retry import IN_PROGRESS_CODE, not_executed
from piecework.telemetry.emit import quiet_log

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

BY_ARGUMENTS = ByKey()


class Idempotent(Protocol[P, R_co]):
    """A function that executes the same operation once."""

    async def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Return the answer of this call or of an earlier equal one.

        Raises:
            Exception: The error of the function. It is not remembered.
            PermanentError: `idempotency.key.mismatch`, `idempotency.key.unusable`,
                `idempotency.sequence.gap`, `idempotency.answer.not_kept`, and
                `runtime.effect.unknown` with `in_doubt="raise"`.
            TransientError: `idempotency.key.in_progress`: an equal call is in progress.
            TimeoutError: The call took longer than its lease.
            StoreError: The store is unavailable; the call was not made.
        """

    def key(self, *args: P.args, **kwargs: P.kwargs) -> str:
        """Return the key of a call: 64 hex digits, equal for equal calls."""

    async def release(self, *args: P.args, **kwargs: P.kwargs) -> bool:
        """Record that a call in doubt did not happen; False: it is not in doubt."""


def idempotent(
    store: IdempotencyStore,
    *,
    scope: str | Callable[..., str],
    operation: str = "",
    by: Strategy = BY_ARGUMENTS,
    duplicates: Literal["wait", "raise"] = "wait",
    in_doubt: Literal["repeat", "raise"] = "repeat",
    lease_s: float = 60.0,
    rng: Random | None = None,
) -> Callable[[Callable[P, Awaitable[R]]], Idempotent[P, R]]:
    """Make an async function execute the same operation once.

    A function with a parameter `idempotency_key` (`str`, by default empty) receives the
    key, to send it to its provider. Its return value is stored as JSON, typed by the
    return annotation. All callers receive the stored value.

    Args:
        store: Stores the operations.
        scope: The user and the task, such as `"user-7/task-3"`. Or a function that
            receives the arguments by name and returns that text. It must contain the
            user, because equal scopes share their answers.
        operation: The name of the operation; by default module and name of the
            function, or what `named_call` declares. The name is part of the key.
        by: The strategy: `ByKey`, `SequenceNumbers` or `TimeWindow`.
        duplicates: `wait`: an equal call waits for the first, for two leases at most.
            `raise`: it raises `idempotency.key.in_progress`.
        in_doubt: For a call after an equal one that may have happened. `repeat`: it is
            made with the same key (with a `TimeWindow`, with a new one). `raise`: it
            raises `runtime.effect.unknown`, for providers that do not honour keys.
        lease_s: Seconds that a call may take, its retries included; then it is cut off.
            If its process dies, the next call begins after that time.
        rng: Source of the owner token and of the pauses while waiting.

    Raises:
        UsageError: `pipeline.declaration.invalid`; `pipeline.call.indistinct`: a
            function in a function, or a lambda, needs an `operation`.
    """
    check_seconds("lease_s", lease_s)

    def wrap(function: Callable[P, Awaitable[R]]) -> Idempotent[P, R]:
        if in_doubt == "raise" and has_retries(function):
            message = 'With in_doubt="raise" remove `retry`: it would repeat the call.'
            raise UsageError(message, code="pipeline.declaration.invalid")
        require_kept(function)
        name = operation or operation_name(function)
        rules = Rules(
            name, scope, by, duplicates == "wait", in_doubt == "repeat", lease_s
        )
        return as_function(function, Guard(function, store, rules, rng or Random()))

    return wrap


def as_function(function: Callable[P, Awaitable[R]], guard: Guard) -> Idempotent[P, R]:
    """Return a real coroutine function: some frameworks check for one."""

    @functools.wraps(function)
    async def call(*args: P.args, **kwargs: P.kwargs) -> R:
        return cast("R", values.decode(function, await guard.call(args, kwargs)))

    def key(*args: P.args, **kwargs: P.kwargs) -> str:
        return guard.begin_request(args, kwargs).ref.name

    async def release(*args: P.args, **kwargs: P.kwargs) -> bool:
        return await guard.store.release(guard.begin_request(args, kwargs).ref)

    vars(call).update(key=key, release=release)
    return cast("Idempotent[P, R]", call)


# ── execute one guarded call ──────────────────────────────────────────────────
#
# begin (wait while an equal call is in progress) -> the call, until the lease ends
# -> settle

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
        result_type(self.function)  # refuses before anything is sent
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
                raise refusal(verdict, request.ref)

    def begin_request(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> BeginRequest:
        """Return the request to begin a call, with a new owner token."""
        rules, owner_token = self.rules, uuid.UUID(int=self.rng.getrandbits(128)).hex
        operation = operation_of(
            self.function, self.store.tenant, rules.scope, rules.operation, args, kwargs
        )
        ref = rules.by.ref(operation)
        return BeginRequest(
            ref, owner_token, rules.lease_s, rules.by.ttl_s, rules.repeatable
        )

    def sent_key(self, request: BeginRequest) -> str:
        """Return the key for the provider.

        With a time window, the same call after the window is another operation. The
        provider must see another key for it.
        """
        return request.owner_token if self.rules.by.best_effort else request.ref.name

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
        failure = noted(error) or classify(error, in_call=True)
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
    key = keys.sha256(request.ref.name.encode())[:12]
    return {"operation": request.ref.operation, "idempotency_key_hash": key}


# ── errors of an operation that is neither made nor answered from the store ───


def refusal(verdict: Verdict, ref: OperationRef) -> PieceworkError:
    """Return the error for a verdict that is not a grant."""
    name = ref.operation + (f", number {ref.number}," if ref.number else "")
    match verdict:
        case Ended(State.REFUSED, str(envelope)):
            return stored_refusal(ErrorEnvelope.model_validate_json(envelope))
        case Ended():
            message = f"{name} was executed before; its answer is not stored."
            return PermanentError(message, code="idempotency.answer.not_kept")
        case InProgress(seconds):
            message = f"{name} is in progress in another call."
            return TransientError(message, code=IN_PROGRESS_CODE, retry_after=seconds)
        case Mismatch():
            message = f"{name} was called with the same key and other arguments."
            return PermanentError(message, code="idempotency.key.mismatch")
        case OutOfOrder(expected):
            message = f"{name} came too early: the next number is {expected}."
            return PermanentError(message, code="idempotency.sequence.gap")
        case InDoubt():
            return PermanentError(
                f"It is unknown whether {name} took place.",
                code="runtime.effect.unknown",
                next_step="Check in the other system. If it did not take place, call "
                "`release` with the same arguments. If it did, do nothing.",
            )
    message = f"{verdict} is not a refusal"
    raise AssertionError(message)


def stored_refusal(envelope: ErrorEnvelope) -> PermanentError:
    """Return a stored refusal as an error with its original code."""
    known = envelope.code in REGISTRY
    code = envelope.code if known else "runtime.stage.permanent"
    return PermanentError(envelope.message, code=code)
