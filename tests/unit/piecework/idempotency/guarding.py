"""A booking service, a clock, and the wrapper around them."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from piecework.standalone import MemoryIdempotency, idempotent
from tests.unit.piecework.fakes import NOW


class Clock:
    """Stands still unless it is moved."""

    def __init__(self, now: float = NOW) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class Airline:
    """Books, or fails with the given errors first; keeps what it was asked."""

    def __init__(self, *errors: BaseException) -> None:
        self.errors = list(errors)
        self.booked: list[tuple[str, str]] = []

    async def book(self, flight: str, *, idempotency_key: str = "") -> dict[str, str]:
        self.booked.append((flight, idempotency_key))
        if self.errors:
            raise self.errors.pop(0)
        return {"flight": flight, "seat": str(len(self.booked))}


def guard(
    function: Callable[..., Any],
    store: MemoryIdempotency | None = None,
    scope: Any = "user-7/task-3",
    **facts: Any,
) -> Any:
    kept = MemoryIdempotency(clock=Clock()) if store is None else store
    facts.setdefault("operation", function.__qualname__)
    return idempotent(kept, scope=scope, rng=Random(7), **facts)(function)
