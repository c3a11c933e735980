"""BreakerState breakers: ours behind a plain face, and those of tutorials."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Protocol

from piecework.errors.codes import ErrorClass
from piecework.resilience.breaker import BreakerState, CircuitBreaker, Health, Permit
from tests.unit.piecework.fakes import envelope

WELL, FAILED, REFUSED = "well", "failed", "refused"


class Fuse(Protocol):
    """A breaker, as a client sees it."""

    def lets_through(self, now: float) -> int | None:
        """Return a number for a call that may be made."""

    def ended(self, call: int, how: str, now: float) -> None:
        """Take in how it ended."""


@dataclass
class Ours:
    """One process's part of the fleet's breaker."""

    rules: CircuitBreaker = field(default_factory=CircuitBreaker)
    passages: dict[int, Permit] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.circuit = BreakerState(self.rules, Random(7))

    def lets_through(self, now: float) -> int | None:
        passage = self.circuit.request_permit(now, probe_s=60.0)
        if not isinstance(passage, Permit):
            return None
        self.passages[len(self.passages)] = passage
        return len(self.passages) - 1

    def ended(self, call: int, how: str, now: float) -> None:
        kinds = {FAILED: ErrorClass.TRANSIENT, REFUSED: ErrorClass.PERMANENT}
        statuses = {FAILED: 503, REFUSED: 400}
        health = Health.SUCCESS
        if how != WELL:
            failure = envelope(kinds[how], http_status=statuses[how])
            health = self.rules.health(failure)
        self.circuit.record_end(self.passages[call], health, now)


def by_rate(calls: int, failed: int) -> bool:
    return calls >= 20 and failed * 2 >= calls


@dataclass
class Naive:
    """The class of a tutorial; each of its faults can be put right."""

    opens: Callable[[int, int], bool] = by_rate
    timeout: float = 30.0
    one_probe: bool = True
    counts: tuple[str, ...] = (FAILED,)
    calls: int = 0
    failed: int = 0
    opened_at: float | None = None
    probing: bool = False
    numbers: itertools.count[int] = field(default_factory=itertools.count)

    def lets_through(self, now: float) -> int | None:
        if self.opened_at is None:
            return next(self.numbers)
        if now - self.opened_at < self.timeout or (self.one_probe and self.probing):
            return None
        self.probing = True
        return next(self.numbers)

    def ended(self, call: int, how: str, now: float) -> None:
        del call
        if self.probing:
            self.probing = False
            self.opened_at = now if how in self.counts else None
            self.calls = self.failed = 0
            return
        self.calls += 1
        self.failed += how in self.counts
        if self.opens(self.calls, self.failed):
            self.opened_at = now
