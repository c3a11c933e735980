"""Decide whether a dependency may be called. Pure: the time is passed in.

    closed      too many of the last calls failed   -> open
    open        the open period is over             -> half-open
    half-open   the one probe was answered          -> closed
                the probe failed                    -> open, for longer

Each of these periods is a generation. The result of a call of an earlier generation is
ignored.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import Enum, StrEnum, auto
from random import Random
from typing import TYPE_CHECKING, Final

from piecework.errors import TransientError, UsageError
from piecework.errors.codes import ErrorClass

if TYPE_CHECKING:
    from piecework.errors import ErrorEnvelope

#: The code of a call that was not made because the breaker was open.
OPEN_CODE: Final = "runtime.breaker.open"
#: Seconds until a call is tried again that was rejected during another probe.
PROBE_RETRY_S: Final = 2.0
TOO_MANY_REQUESTS: Final = 429
#: The codes of rate limits: those of HTTP services, and the throttles of AWS. A model
#: provider's 529 is not one of them: it refuses all its clients, and fewer calls of
#: this fleet do not end that.
RATE_LIMIT_CODES: Final = frozenset(
    {
        "llm.http.429_rate_limited",
        "tool.http.429_rate_limited",
        "aws.service.throttled",
    }
)
#: Answers that arrived, but that the call cannot decode: most depend on its input.
DECODING_CODES: Final = frozenset(
    {"llm.http.malformed_body", "tool.http.malformed_body"}
)
#: Failures on our side of a call: they say nothing about the dependency.
OUR_CODES: Final = frozenset({OPEN_CODE, "runtime.worker.exhausted"})


def is_rate_limited(failure: ErrorEnvelope) -> bool:
    """Return whether the dependency works, but received more calls than it allows.

    An exhausted quota has status 429 too, but it is a refusal by a policy.
    """
    limited = (
        failure.http_status == TOO_MANY_REQUESTS or failure.code in RATE_LIMIT_CODES
    )
    return limited and failure.error_class is ErrorClass.TRANSIENT


@dataclass(frozen=True, slots=True)
class CircuitBreaker:
    """When a dependency is not called for a while. All times are in seconds.

    Attributes:
        failure_rate: The share of failed calls at which the breaker opens.
        minimum_calls: The breaker never opens on fewer calls, and on this number only
            if all of them failed. The more calls there were, the closer to the
            failure rate it opens.
        window_calls, window_s: The breaker judges at most this many calls, and none
            older than this. The limit by number lets a busy worker notice an outage
            as soon as an idle one.
        open_s: How long the breaker stays open. Each failed probe doubles it.
        max_open_s: The upper limit of the open period.

    Raises:
        UsageError: `pipeline.declaration.invalid`.
    """

    failure_rate: float = 0.5
    minimum_calls: int = 10
    window_calls: int = 50
    window_s: float = 30.0
    open_s: float = 30.0
    max_open_s: float = 300.0

    def __post_init__(self) -> None:
        """Refuse values with which the breaker would never open, or never close."""
        valid_counts = 1 <= self.minimum_calls <= self.window_calls
        valid_times = 0 < self.open_s <= self.max_open_s and self.window_s > 0
        if not (0 < self.failure_rate <= 1 and valid_counts and valid_times):
            raise UsageError(
                f"{self} is not valid.",
                code="pipeline.declaration.invalid",
                next_step="Keep 0 < failure_rate <= 1, 1 <= minimum_calls <= "
                "window_calls, window_s > 0 and 0 < open_s <= max_open_s.",
            )

    def should_open(self, failed: int, calls: int) -> bool:
        """Return whether this number of failed calls opens the breaker.

        The failures beyond the rate must weigh as much as `minimum_calls` failures in
        a row. One process opens the breaker for the whole fleet, so chance must not.
        """
        excess = failed - self.failure_rate * calls
        enough = (1 - self.failure_rate) * self.minimum_calls
        return calls >= self.minimum_calls and excess >= enough

    def open_period_s(self, failed_probes: int, rng: Random) -> float:
        """Return how long the breaker stays open, in seconds.

        The period is random after a failed probe, so that processes without the
        fleet's record do not probe all at once.
        """
        if not failed_probes:
            return self.open_s
        ceiling = min(self.max_open_s, self.open_s * 2.0 ** min(failed_probes, 60))
        return rng.uniform(ceiling / 2, ceiling)

    def health(self, failure: ErrorEnvelope) -> Health:
        """Return what a failed call says about the dependency's health.

        A refusal of the request (a 4xx, a rule, wrong content) is not counted among
        the calls. But a dependency that refuses a request is reachable. So is one that
        answers with a rate limit or a body that cannot be decoded: it works.
        """
        if failure.code in OUR_CODES:
            return Health.UNKNOWN
        if is_rate_limited(failure) or failure.code in DECODING_CODES:
            return Health.REACHABLE
        if failure.error_class is ErrorClass.TRANSIENT:
            return Health.FAILURE
        answered = failure.error_class in {ErrorClass.SEMANTIC, ErrorClass.POLICY}
        if answered or failure.http_status is not None:
            return Health.REACHABLE
        return Health.UNKNOWN


def breaker_open_error(dependency: str, seconds: float) -> TransientError:
    """Return the error of a call that is not made; it may be tried after `seconds`."""
    return TransientError(
        f"Circuit breaker for {dependency} is open for {seconds:.0f} s.",
        code=OPEN_CODE,
        retry_after=seconds,
        dependency=dependency,
    )


class Health(Enum):
    """What the end of a call says about a dependency's health."""

    #: The dependency did what was requested.
    SUCCESS = auto()
    #: The dependency answered, but the answer counts as neither success nor failure.
    REACHABLE = auto()
    #: The dependency failed or did not answer.
    FAILURE = auto()
    #: Nothing: the call was cut off, or failed on our side.
    UNKNOWN = auto()

    @property
    def is_counted(self) -> bool:
        """Whether the call is one of those that the failure rate is computed from."""
        return self is Health.SUCCESS or self is Health.FAILURE


class BreakerPhase(StrEnum):
    """The stored phase of a breaker: half-open is OPEN after its open period."""

    CLOSED = "closed"
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class Permit:
    """The breaker allows a call of this generation; `probe`: it is the probe."""

    generation: int
    probe: bool = False


@dataclass(frozen=True, slots=True)
class Rejected:
    """The breaker rejects a call; the caller may ask again after `seconds`."""

    seconds: float


@dataclass(slots=True)
class CallWindow:
    """The last calls, and how many of them failed."""

    ends: deque[tuple[float, bool]] = field(default_factory=deque)
    failed: int = 0

    def add(self, now: float, rules: CircuitBreaker, *, failed: bool) -> None:
        """Add a call, and drop the calls that are too old or too many."""
        self.ends.append((now, failed))
        self.failed += failed
        oldest = now - rules.window_s
        while len(self.ends) > rules.window_calls or self.ends[0][0] < oldest:
            self.failed -= self.ends.popleft()[1]


@dataclass(slots=True)
class BreakerState:
    """The breaker of one dependency as one process sees it.

    Attributes:
        generation: Rises with each change of the phase.
        open_until: While the breaker is open: when it becomes half-open.
        probe_until: When a probe that is under way counts as lost.
    """

    rules: CircuitBreaker
    rng: Random
    phase: BreakerPhase = BreakerPhase.CLOSED
    generation: int = 0
    open_until: float = 0.0
    failed_probes: int = 0
    probe_until: float = 0.0
    window: CallWindow = field(default_factory=CallWindow)

    def request_permit(self, now: float, probe_s: float) -> Permit | Rejected:
        """Allow a call or reject it; the first call after the open period is the probe.

        `probe_s`: seconds after which a probe without an answer counts as lost.
        """
        if self.phase is BreakerPhase.CLOSED:
            return Permit(self.generation)
        if now < self.open_until:
            return Rejected(self.open_until - now)
        if now < self.probe_until:
            return Rejected(min(PROBE_RETRY_S, self.probe_until - now))
        self.probe_until = now + probe_s
        return Permit(self.generation, probe=True)

    def note_other_probe(self, until: float) -> None:
        """Note that another process has the probe, at least until that time."""
        if self.phase is BreakerPhase.OPEN:
            self.probe_until = max(self.probe_until, until)

    def record_end(self, permit: Permit, health: Health, now: float) -> None:
        """Record how a call ended; ignore a call of an earlier generation."""
        if permit.generation != self.generation:
            return
        if permit.probe:
            self._record_probe(health, now)
        elif self.phase is BreakerPhase.CLOSED and health.is_counted:
            self.window.add(now, self.rules, failed=health is Health.FAILURE)
            if self.rules.should_open(self.window.failed, len(self.window.ends)):
                self.open(now + self.rules.open_period_s(0, self.rng))

    def _record_probe(self, health: Health, now: float) -> None:
        match health:
            case Health.FAILURE:
                failed = self.failed_probes + 1
                self.open(now + self.rules.open_period_s(failed, self.rng), failed)
            case Health.UNKNOWN:
                self.probe_until = 0.0
            case _:
                self.close()

    def open(self, until: float, failed_probes: int = 0) -> None:
        """Reject all calls until that time."""
        self._enter(BreakerPhase.OPEN)
        self.open_until, self.failed_probes = until, failed_probes

    def close(self) -> None:
        """Allow all calls."""
        self._enter(BreakerPhase.CLOSED)
        self.open_until, self.failed_probes = 0.0, 0

    def _enter(self, phase: BreakerPhase) -> None:
        self.phase, self.probe_until = phase, 0.0
        self.generation += 1
        self.window = CallWindow()
