"""`idempotent`: make an async function do the same operation once."""

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
    """A function that does the same operation once."""

    async def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Return the answer of the call, or of the one before it.

        Raises:
            Exception: What the function raised; nothing is remembered then.
            PermanentError: `idempotency.key.mismatch`, `idempotency.key.unusable`,
                `idempotency.sequence.gap`, `idempotency.answer.not_kept`, and
                `runtime.effect.unknown` with `in_doubt="raise"`.
            TransientError: `idempotency.key.in_progress`: somebody else is at it.
            TimeoutError: The call took longer than its lease.
            StoreError: The store cannot be reached; the call was not made.
        """

    def key(self, *args: P.args, **kwargs: P.kwargs) -> str:
        """Return the key of a call, 64 hex digits: equal for every repetition."""

    async def release(self, *args: P.args, **kwargs: P.kwargs) -> bool:
        """Say that a call in doubt did not happen; False: it is in no doubt."""


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
    """Make an async function do the same operation once.

    A function with a parameter `idempotency_key` (`str`, by default empty) is given
    the key, for its provider. What it returns is stored as JSON, typed by its return
    annotation; what its callers get is what was stored.

    Args:
        store: Where operations are remembered.
        scope: Whose operation it is, such as `"user-7/task-3"`, or what makes that of
            the arguments, given by their names. The user has to be in it: equal
            scopes share their answers.
        operation: Its name; by default that of the function. ByKey change with it.
        by: The strategy: `ByKey`, `SequenceNumbers` or `TimeWindow`.
        duplicates: What becomes of an equal call while the first is under way: it
            waits (two leases at most), or is told with `idempotency.key.in_progress`.
        in_doubt: What becomes of a call after one that may have happened: it is made
            again with the same key (with a `TimeWindow`, a fresh one), or raises
            `runtime.effect.unknown`, which is for providers that do not honour keys.
        lease_s: Seconds that a call may take, its retries included. It is cut off
            then; and if its process dies, the next begins after that.
        rng: Where the fence and the pauses of waiting come from.

    Raises:
        UsageError: `pipeline.declaration.invalid`.
    """
    check_seconds("lease_s", lease_s)

    def wrap(function: Callable[P, Awaitable[R]]) -> Idempotent[P, R]:
        if in_doubt == "raise" and has_retries(function):
            message = 'With in_doubt="raise" a call is not repeated: no `retry` in it.'
            raise UsageError(message, code="pipeline.declaration.invalid")
        name = operation or getattr(function, "__qualname__", "")
        rules = Rules(
            name, scope, by, duplicates == "wait", in_doubt == "repeat", lease_s
        )
        return as_function(function, Guard(function, store, rules, rng or Random()))

    return wrap


def as_function(function: Callable[P, Awaitable[R]], guard: Guard) -> Idempotent[P, R]:
    """Return a true coroutine function: frameworks look whether it is one."""

    @functools.wraps(function)
    async def call(*args: P.args, **kwargs: P.kwargs) -> R:
        return cast("R", values.decode(function, await guard.call(args, kwargs)))

    def key(*args: P.args, **kwargs: P.kwargs) -> str:
        return guard.asked(args, kwargs).slot.name

    async def release(*args: P.args, **kwargs: P.kwargs) -> bool:
        return await guard.store.release(guard.asked(args, kwargs).slot)

    vars(call).update(key=key, release=release)
    return cast("Idempotent[P, R]", call)
