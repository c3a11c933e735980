"""The limits of one process's dependencies.

A call of a dependency without limits costs no request.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Final

from piecework import telemetry
from piecework.calls.limiter import Limiter, QuotaRecord
from piecework.dependency import Dependency
from piecework.resilience.limits import NO_LIMITS, Quota, micros

#: The most answered calls of a dependency that a process counts.
KNOWN_ANSWERS: Final = 1_000
#: What keeps the calls of a dependency below the rate that it allows.
WHAT_TO_DECLARE: Final = (
    "declare limits=Limits(requests_per_minute=…), or requests_per_second=…"
)


@dataclass(slots=True)
class FleetLimits:
    """The limits of one process, by the name of the dependency.

    Attributes:
        record: The fleet's record; None: there is only this process.
        worker: The name of this process among the shares.
        answers: The times of the last answers, by dependency.
        undeclared: The dependencies without a limit that refused a call: each is told.
    """

    clock: Callable[[], float]
    rng: Random
    log: telemetry.Log
    record: QuotaRecord | None = None
    worker: str = ""
    by_name: dict[str, Limiter] = field(default_factory=dict)
    answers: defaultdict[str, deque[int]] = field(
        default_factory=lambda: defaultdict(lambda: deque(maxlen=KNOWN_ANSWERS))
    )
    undeclared: set[str] = field(default_factory=set)

    def of(self, dependency: Dependency) -> Limiter | None:
        """Return the limiter of a dependency; None: its calls have no limit now."""
        limiter, declared = self.by_name.get(dependency.name), dependency.limits
        if limiter is None:
            if not declared:
                return None
            limiter = self._limiter(dependency.name)
        limiter.declared = declared or NO_LIMITS
        return limiter if limiter.is_limited() else None

    def paused(self, dependency: Dependency) -> str:
        """Return why a dependency is paused, as far as this process knows; or empty."""
        limiter = self.by_name.get(dependency.name)
        return "" if limiter is None else limiter.quota.paused

    def note_answer(self, dependency: Dependency) -> None:
        """Remember that a call was answered: a refusal is judged by their share."""
        self.answers[dependency.name].append(micros(self.clock()))

    def has_answered_since(self, dependency: Dependency, moment: int) -> bool:
        """Return whether a call was answered since then, in microseconds."""
        answers = self.answers[dependency.name]
        return bool(answers) and answers[-1] > moment

    def note_refusal(
        self, dependency: Dependency, started: int, retry_after: float | None
    ) -> None:
        """Slow the fleet down after a 429, if the dependency is declared so.

        The first 429 of a dependency without a limit says what to declare: retries
        alone meet further refusals for as long as the calls come too fast.
        """
        self._advise(dependency)
        if not dependency.adaptive_rate:
            return
        limiter = self._limiter(dependency.name)
        limiter.declared = dependency.limits or NO_LIMITS
        limiter.note_refusal(started, retry_after)

    def _advise(self, dependency: Dependency) -> None:
        name = dependency.name
        known = self.by_name.get(name)
        operator = NO_LIMITS if known is None else known.quota.operator
        if dependency.limits or operator or name in self.undeclared:
            return
        self.undeclared.add(name)
        telemetry.emit(
            self.log, "limits.undeclared", dependency=name, next_step=WHAT_TO_DECLARE
        )

    def adopt(self, name: str, quota: Quota) -> None:
        """Take a record that was read together with the breakers."""
        self._limiter(name).adopt(quota)

    def _limiter(self, name: str) -> Limiter:
        if name not in self.by_name:
            common = (self.clock, self.rng, self.log, self.record, self.answers[name])
            self.by_name[name] = Limiter(name, *common, self.worker)
        return self.by_name[name]
