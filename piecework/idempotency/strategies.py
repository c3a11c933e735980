"""Decide which calls are the same operation; choose by the cost of a duplicate.

ByKey              payments, bookings, mails: effects that must not happen twice
SequenceNumbers    the ordered steps of one writer: no gaps, one step at a time
TimeWindow         much traffic with cheap duplicates: the call may be repeated after
                   the window, or if the store is unavailable
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Protocol

from piecework.domain import keys
from piecework.errors import PermanentError, UsageError
from piecework.idempotency.record import OperationRef

#: DynamoDB keeps 38 digits of a number. 19 are enough for the key of a database.
MAX_NUMBER: Final = 2**63 - 1
#: A hundred years: a later moment may have no date.
MAX_SECONDS: Final = 3_155_760_000


class Strategy(Protocol):
    """How calls are distinguished, and how long they are remembered."""

    @property
    def ttl_s(self) -> float:
        """Seconds that the outcome of a call is remembered."""

    @property
    def remembers_refusals(self) -> bool:
        """Whether a refusal is remembered like an answer."""

    @property
    def best_effort(self) -> bool:
        """Whether the call is made even if the store is unavailable."""

    def ref(self, operation: Operation) -> OperationRef:
        """Return the operation that a call is."""


@dataclass(frozen=True, slots=True)
class ByKey:
    """One record for each key; the same key with other arguments is an error.

    Attributes:
        of: Returns the key from the arguments, which it receives by name, such as
            `lambda order, **_: order`. Do not use a time, an attempt or a random
            number. None: the key is made of all arguments.
        ttl_s: Seconds that an answer is remembered; 24 hours, as most providers do.
        remembers_refusals: Whether a permanent refusal (such as HTTP 422) is
            remembered, and raised again without a call.

    Raises:
        UsageError: `pipeline.declaration.invalid`.
    """

    of: Callable[..., Any] | None = None
    ttl_s: float = 86_400.0
    remembers_refusals: bool = False
    best_effort: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Check the duration."""
        check_seconds("ttl_s", self.ttl_s)

    def ref(self, operation: Operation) -> OperationRef:
        """Return the place of a call in a store.

        Raises:
            PermanentError: `idempotency.key.unusable`.
        """
        if self.of is None:
            return operation.ref("keys", operation.arguments)
        key = self.of(**operation.arguments)
        if key is None or key == "":
            raise unusable_key(operation.names[-1], "`of` returned an empty key")
        return operation.ref("keys", [key])


@dataclass(frozen=True, slots=True)
class SequenceNumbers:
    """One stream for each scope: numbers from 1, each once, without gaps.

    A number whose call failed remains the next number.

    Attributes:
        of: Returns the number, from 1, from the arguments, which it receives by name.
        ttl_s: Seconds that an answer is remembered. The next number never expires.

    Raises:
        UsageError: `pipeline.declaration.invalid`.
    """

    of: Callable[..., int]
    ttl_s: float = 86_400.0
    remembers_refusals: ClassVar[bool] = False
    best_effort: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Check the function and the duration."""
        of: Any = self.of
        if not callable(of):
            message = "SequenceNumbers(of=…) requires a function of the arguments."
            raise UsageError(message, code="pipeline.declaration.invalid")
        check_seconds("ttl_s", self.ttl_s)

    def ref(self, operation: Operation) -> OperationRef:
        """Return the place of a call in a store.

        Raises:
            PermanentError: `idempotency.key.unusable`.
        """
        number: Any = self.of(**operation.arguments)
        if not isinstance(number, int) or not 1 <= number <= MAX_NUMBER:
            reason = f"numbers are 1, 2, 3 and so on, up to {MAX_NUMBER}"
            raise unusable_key(operation.names[-1], reason)
        return operation.ref("numbers", [], number)


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """Equal calls within a window are one call, unless the store is unavailable.

    Attributes:
        window_s: Seconds, counted from the answer.

    Raises:
        UsageError: `pipeline.declaration.invalid`.
    """

    window_s: float = 300.0
    remembers_refusals: ClassVar[bool] = False
    best_effort: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Check the duration."""
        check_seconds("window_s", self.window_s)

    @property
    def ttl_s(self) -> float:
        """Seconds that the outcome of a call is remembered."""
        return self.window_s

    def ref(self, operation: Operation) -> OperationRef:
        """Return the operation that a call is."""
        return operation.ref("window", operation.arguments)


@dataclass(frozen=True, slots=True)
class KnownOperation:
    """The operation of a call whose arguments are in another process.

    Attributes:
        known: What the strategy of the dependency returned there.
    """

    known: OperationRef
    ttl_s: float
    best_effort: bool
    remembers_refusals: ClassVar[bool] = False

    def ref(self, operation: Operation) -> OperationRef:
        """Return the operation that the call is."""
        del operation
        return self.known


def check_seconds(name: str, seconds: Any) -> None:
    """Refuse a value that is not a positive, finite duration.

    Raises:
        UsageError: `pipeline.declaration.invalid`.
    """
    if not (isinstance(seconds, int | float) and 0 < seconds <= MAX_SECONDS):
        message = f"{name} is {seconds!r}; it must be a number of seconds above 0"
        message += f", {MAX_SECONDS} at most."
        raise UsageError(message, code="pipeline.declaration.invalid")


# ── a call for its strategy ───────────────────────────────────────────────────

#: The parameter that receives the key, if the function has it.
KEY = "idempotency_key"


@dataclass(frozen=True, slots=True)
class Operation:
    """A requested call.

    Attributes:
        names: Tenant, scope, further parts of the key, and the name of the operation.
        arguments: The arguments by parameter name, without the key.
    """

    names: tuple[str, ...]
    arguments: Mapping[str, Any]

    def ref(self, strategy: str, key: Any, number: int = 0) -> OperationRef:
        """Return how the store names the operation.

        Raises:
            PermanentError: `idempotency.key.unusable`.
        """
        from piecework.domain.arguments import digest_of  # pydantic: for calls only

        try:
            payload = digest_of([self.arguments], {})
            key = keys.sha256_of(strategy, *self.names, digest_of([key], {}))
        except UsageError as error:
            raise unusable_key(self.names[-1], error.message) from error
        return OperationRef(key, payload, number, self.names[-1])


def operation_of(
    function: Callable[..., Any],
    tenant: str,
    scope: str | Callable[..., str],
    name: str,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    further: tuple[str, ...] = (),
) -> Operation:
    """Return the operation of a call.

    `further`: what else distinguishes the operations of a scope.

    An argument that is left out is not replaced by its default. So a parameter with a
    default that is added later does not change the keys of earlier calls. A scope that
    is a function receives the arguments by name.

    Raises:
        TypeError: The arguments do not fit the function.
        PermanentError: `idempotency.key.unusable`.
    """
    if kwargs.get(KEY):
        reason = f"{KEY} is computed; use `ByKey(of=...)` to choose the arguments"
        raise unusable_key(name, reason)
    own = {KEY: ""} if takes_key(function) else {}
    kwargs = {key: value for key, value in kwargs.items() if key != KEY}
    arguments = inspect.signature(function).bind(*args, **kwargs, **own).arguments
    arguments.pop(KEY, None)
    scope_name = scope if isinstance(scope, str) else scope(**arguments)
    if not scope_name:
        raise unusable_key(name, "its scope is empty")
    return Operation((tenant, scope_name, *further, name), arguments)


def takes_key(function: Callable[..., Any]) -> bool:
    """Return whether a function has a parameter for the key."""
    return KEY in inspect.signature(function).parameters


def unusable_key(name: str, reason: str) -> PermanentError:
    """Return the error of a call for which no key can be computed."""
    message = f"{name} has no stable key: {reason}."
    return PermanentError(message, code="idempotency.key.unusable")
