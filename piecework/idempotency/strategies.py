"""What makes two calls the same operation: chosen by the price of a duplicate.

ByKey               payments, bookings, mails: what must not happen twice
SequenceNumbers    the ordered steps of one writer: none left out, none at once
TimeWindow         much traffic at low stakes: twice after the window, or in an outage
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from piecework.errors import UsageError
from piecework.idempotency.operation import Operation, unusable
from piecework.idempotency.record import Slot


class Strategy(Protocol):
    """How calls are told apart, and how long they are remembered."""

    @property
    def ttl_s(self) -> float:
        """Seconds that what came of a call is remembered."""

    @property
    def remembers_refusals(self) -> bool:
        """Whether a plain refusal is remembered as an answer is."""

    @property
    def best_effort(self) -> bool:
        """Whether a duplicate costs little: in an outage of the store it is made."""

    def slot(self, operation: Operation) -> Slot:
        """Return where a call is remembered."""


@dataclass(frozen=True, slots=True)
class ByKey:
    """One record for each key; the same key with other arguments is an error.

    Attributes:
        of: Makes the key of the arguments, given by their names, such as
            `lambda order, **_: order`: never of a time, an attempt or a random number.
            None: all arguments are it.
        ttl_s: Seconds that an answer is remembered; 24 hours, as most providers do.
        remembers_refusals: Whether a plain refusal (such as HTTP 422) is remembered,
            and raised again without a call.
    """

    of: Callable[..., Any] | None = None
    ttl_s: float = 86_400.0
    remembers_refusals: bool = False
    best_effort: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Refuse to remember nothing."""
        check_seconds("ttl_s", self.ttl_s)

    def slot(self, operation: Operation) -> Slot:
        """Return the place of a call's key.

        Raises:
            PermanentError: `idempotency.key.unusable`.
        """
        if self.of is None:
            return operation.slot("keys", operation.arguments)
        key = self.of(**operation.arguments)
        if key is None or key == "":
            raise unusable(operation.names[-1], "`of` makes nothing of its arguments")
        return operation.slot("keys", [key])


@dataclass(frozen=True, slots=True)
class SequenceNumbers:
    """One stream for each scope: number 1 first, each number once, none left out.

    A number that failed is still due.

    Attributes:
        of: Takes the number, from 1, out of the arguments, given by their names.
        ttl_s: Seconds that an answer is remembered. Which number is due is for ever.
    """

    of: Callable[..., int]
    ttl_s: float = 86_400.0
    remembers_refusals: ClassVar[bool] = False
    best_effort: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Refuse to remember nothing."""
        check_seconds("ttl_s", self.ttl_s)

    def slot(self, operation: Operation) -> Slot:
        """Return the place of a call's number.

        Raises:
            PermanentError: `idempotency.key.unusable`.
        """
        number = self.of(**operation.arguments)
        if number < 1:
            raise unusable(operation.names[-1], "numbers count from 1")
        return operation.slot("numbers", [], number)


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """Equal calls within a window are one, unless the store cannot be reached.

    Attributes:
        window_s: Seconds, from the answer on.
    """

    window_s: float = 300.0
    remembers_refusals: ClassVar[bool] = False
    best_effort: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Refuse a window of nothing."""
        check_seconds("window_s", self.window_s)

    @property
    def ttl_s(self) -> float:
        """Seconds that what came of a call is remembered."""
        return self.window_s

    def slot(self, operation: Operation) -> Slot:
        """Return the place of a call's arguments."""
        return operation.slot("window", operation.arguments)


def check_seconds(name: str, seconds: float) -> None:
    """Refuse what is no length of time.

    Raises:
        UsageError: `pipeline.declaration.invalid`.
    """
    if not (seconds > 0 and math.isfinite(seconds)):
        message = f"{name} is {seconds}, and has to be a number of seconds above 0."
        raise UsageError(message, code="pipeline.declaration.invalid")
