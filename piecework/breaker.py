"""A circuit breaker: when a dependency is not worth asking. Pure; time is passed in.

    closed      too many of the last calls failed   -> open
    open        its time is over                    -> half-open
    half-open   the one probe was answered          -> closed
                the probe failed                    -> open, for longer

Each of these times is a generation, and the answer to a call of an earlier one counts
for nothing.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import Enum, StrEnum, auto
from random import Random
from typing import Final

from piecework.classify import classify
from piecework.codes import ErrorClass
from piecework.errors import ErrorEnvelope, TransientError, UsageError

#: The code of a call that was not made, for the breaker was open.
OPEN_CODE: Final = "runtime.breaker.open"
#: Seconds after which who met somebody else's probe asks again.
PROBED_S: Final = 2.0
TOO_MANY_REQUESTS: Final = 429


@dataclass(frozen=True, slots=True)
class Breaker:
    """When calls to a dependency are given up for a while; all times in seconds.

    Attributes:
        rate: The share of failed calls at which it opens.
        volume: Fewer calls than these say nothing, and these only if all of them
            failed; the more calls there were, the closer to the rate it opens.
        calls, window_s: The last so many calls are judged, and none older than that:
            by number, so that a busy worker notices an outage as soon as an idle one.
        reset_s: How long it stays open; doubled with each probe that fails.
        longest_s: No time is longer.
        rate_limits: Whether a 429 is a failure.
    """

    rate: float = 0.5
    volume: int = 10
    calls: int = 50
    window_s: float = 30.0
    reset_s: float = 30.0
    longest_s: float = 300.0
    rate_limits: bool = True

    def __post_init__(self) -> None:
        """Refuse figures by which it would never open, or never close."""
        sound = 0 < self.rate <= 1 and 1 <= self.volume <= self.calls
        if not sound or not 0 < self.reset_s <= self.longest_s or self.window_s <= 0:
            raise UsageError(
                f"{self} cannot hold.",
                code="pipeline.declaration.invalid",
                next_step="Keep 0 < rate <= 1, 1 <= volume <= calls, window_s > 0 and "
                "0 < reset_s <= longest_s.",
            )

    def opens(self, failed: int, calls: int) -> bool:
        """Say whether so many failures are too many.

        As many beyond the rate as `volume` failures in a row would be: one process
        opens it for the whole fleet, and chance must not.
        """
        beyond = failed - self.rate * calls
        return calls >= self.volume and beyond >= (1 - self.rate) * self.volume

    def open_s(self, failed_probes: int, rng: Random) -> float:
        """Return how long it stays open; workers that fail alone spread out."""
        if not failed_probes:
            return self.reset_s
        ceiling = min(self.longest_s, self.reset_s * 2.0 ** min(failed_probes, 60))
        return rng.uniform(ceiling / 2, ceiling)

    def health(self, failure: ErrorEnvelope) -> Health:
        """Return what a failed call says of the dependency's health.

        A refusal of what was asked (a 4xx, a rule, wrong content) says nothing of it
        among other calls; but whoever refuses is there.
        """
        if failure.code == OPEN_CODE:
            return Health.UNKNOWN
        if failure.error_class is ErrorClass.TRANSIENT:
            limited = failure.http_status == TOO_MANY_REQUESTS
            return Health.FAILED if self.rate_limits or not limited else Health.THERE
        answered = failure.error_class in {ErrorClass.SEMANTIC, ErrorClass.POLICY}
        if answered or failure.http_status is not None:
            return Health.THERE
        return Health.UNKNOWN


def refused_by_breaker(error: BaseException) -> bool:
    """Say whether a call was not made, for the breaker was open."""
    return classify(error).code == OPEN_CODE


def refusal(dependency: str, seconds: float) -> TransientError:
    """Return the error of a call that is not made."""
    return TransientError(
        f"Dependency {dependency} is not asked for {seconds:.0f} s: its calls fail.",
        code=OPEN_CODE,
        retry_after=seconds,
        dependency=dependency,
    )


class Health(Enum):
    """What the end of a call says of a dependency's health."""

    #: It did what it was asked.
    WELL = auto()
    #: It answered, but the answer is no call's success or failure.
    THERE = auto()
    #: It failed, or nobody answered.
    FAILED = auto()
    #: Nothing: the call was cut off, or failed on our side.
    UNKNOWN = auto()

    @property
    def counts(self) -> bool:
        """Whether it is one of the calls among which the failed ones are a share."""
        return self is Health.WELL or self is Health.FAILED


class State(StrEnum):
    """What a breaker does; one that is open and whose time is over is half-open."""

    CLOSED = "closed"
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class Passage:
    """A call that is let through: in which generation, and whether it is the probe."""

    generation: int
    probe: bool = False


@dataclass(frozen=True, slots=True)
class Wait:
    """A call that is not let through: ask again after so many seconds."""

    seconds: float


@dataclass(slots=True)
class Window:
    """The last calls, and how many of them failed."""

    ends: deque[tuple[float, bool]] = field(default_factory=deque)
    failed: int = 0

    def add(self, now: float, rules: Breaker, *, failed: bool) -> None:
        """Take a call in, and let those go that are too old or too many."""
        self.ends.append((now, failed))
        self.failed += failed
        oldest = now - rules.window_s
        while len(self.ends) > rules.calls or self.ends[0][0] < oldest:
            self.failed -= self.ends.popleft()[1]


@dataclass(slots=True)
class Circuit:
    """The breaker of one dependency, as one process sees it.

    Attributes:
        generation: Rises with each change of the state.
        until: While it is open: when it is half-open.
        probed_until: When a probe under way counts as lost.
    """

    rules: Breaker
    rng: Random
    state: State = State.CLOSED
    generation: int = 0
    until: float = 0.0
    failed_probes: int = 0
    probed_until: float = 0.0
    window: Window = field(default_factory=Window)

    def ask(self, now: float, probe_s: float) -> Passage | Wait:
        """Let a call through, or not; the first after the time is over is the probe.

        `probe_s`: seconds after which a probe without an answer counts as lost.
        """
        if self.state is State.CLOSED:
            return Passage(self.generation)
        if now < self.until:
            return Wait(self.until - now)
        if now < self.probed_until:
            return Wait(min(PROBED_S, self.probed_until - now))
        self.probed_until = now + probe_s
        return Passage(self.generation, probe=True)

    def probed(self, until: float) -> None:
        """Note that the probe is somebody else's, at least until then."""
        if self.state is State.OPEN:
            self.probed_until = max(self.probed_until, until)

    def ended(self, passage: Passage, health: Health, now: float) -> None:
        """Take in how a call ended; one of an earlier generation counts for nothing."""
        if passage.generation != self.generation:
            return
        if passage.probe:
            self._probed(health, now)
        elif self.state is State.CLOSED and health.counts:
            self.window.add(now, self.rules, failed=health is Health.FAILED)
            if self.rules.opens(self.window.failed, len(self.window.ends)):
                self.open(now + self.rules.open_s(0, self.rng))

    def _probed(self, health: Health, now: float) -> None:
        match health:
            case Health.FAILED:
                failed = self.failed_probes + 1
                self.open(now + self.rules.open_s(failed, self.rng), failed)
            case Health.UNKNOWN:
                self.probed_until = 0.0
            case _:
                self.close()

    def open(self, until: float, failed_probes: int = 0) -> None:
        """Let no call through until then."""
        self._begin(State.OPEN)
        self.until, self.failed_probes = until, failed_probes

    def close(self) -> None:
        """Let all calls through."""
        self._begin(State.CLOSED)
        self.until, self.failed_probes = 0.0, 0

    def _begin(self, state: State) -> None:
        self.state, self.probed_until = state, 0.0
        self.generation += 1
        self.window = Window()
