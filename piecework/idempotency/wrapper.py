"""`idempotent`: make an async function execute the same operation once."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from random import Random
from typing import Literal, ParamSpec, Protocol, TypeVar, cast

from piecework import values
from piecework.errors import UsageError
from piecework.idempotency.guard import Guard, Rules
from piecework.idempotency.store import IdempotencyStore
from piecework.idempotency.strategies import ByKey, Strategy, check_seconds
from piecework.retrying import has_retries

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
        scope: The user and the task, such as `"user-7/task-3"`, or a function that
            receives the arguments by name and returns that text. It must contain the
            user, because equal scopes share their answers.
        operation: The name of the operation; by default that of the function. The name
            is part of the key.
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
        UsageError: `pipeline.declaration.invalid`.
    """
    check_seconds("lease_s", lease_s)

    def wrap(function: Callable[P, Awaitable[R]]) -> Idempotent[P, R]:
        if in_doubt == "raise" and has_retries(function):
            message = 'With in_doubt="raise" remove `retry`: it would repeat the call.'
            raise UsageError(message, code="pipeline.declaration.invalid")
        name = operation or getattr(function, "__qualname__", "")
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
        return guard.begin_request(args, kwargs).slot.name

    async def release(*args: P.args, **kwargs: P.kwargs) -> bool:
        return await guard.store.release(guard.begin_request(args, kwargs).slot)

    vars(call).update(key=key, release=release)
    return cast("Idempotent[P, R]", call)
