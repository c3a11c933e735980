"""A breaker behind a plain face."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from piecework.errors.codes import ErrorClass
from piecework.resilience.breaker import BreakerState, CircuitBreaker, Health, Permit
from tests.unit.piecework.fakes import envelope

WELL, FAILED, REFUSED = "well", "failed", "refused"


@dataclass
class Fuse:
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
