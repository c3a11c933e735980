"""Decide whether a dependency may be called. Pure: the time is passed in.

    closed      too many of the last calls failed,
                those of two chunks at least        -> open
    open        the open period is over             -> half-open
    half-open   the one probe was answered          -> closed
                the probe failed                    -> open, for longer

Each of these periods is a generation. The result of a call of an earlier generation is
ignored.
"""

from __future__ import annotations

from collections import Counter, deque
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
#: provider's 529 is not one of them. With it the provider refuses all its clients, and
#: fewer calls of this fleet do not end that.
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
OUR_CODES: Final = frozenset(
    {OPEN_CODE, "runtime.pool.broken", "runtime.worker.exhausted"}
)


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

    @property
    def most_of_one_chunk(self) -> int:
        """The failures of one chunk that count: half of those that open the breaker.

        A poison input fails at each call. It must not close the dependency to others.
        """
        return (self.minimum_calls + 1) // 2

    def open_period_s(self, failed_probes: int, rng: Random) -> float:
        """Return how long the breaker stays open, in seconds.

        The period is random after a failed probe. So processes without the fleet's
        record do not probe all at once.
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


def breaker_open_error(
    dependency: str, seconds: float, failure_code: str = ""
) -> TransientError:
    """Return the error of a call that is not made; it may be tried after `seconds`.

    `failure_code`: the code of the last failure of the dependency, if it is known.
    """
    failed = f"; it failed with {failure_code}" if failure_code else ""
    return TransientError(
        f"Circuit breaker for {dependency} is open for {seconds:.0f} s{failed}.",
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
    """The breaker allows a call of this generation.

    `probe_until`: when the call counts as a lost probe; 0.0: it is not the probe.
    """

    generation: int
    probe_until: float = 0.0


@dataclass(frozen=True, slots=True)
class Rejected:
    """The breaker rejects a call; the caller may ask again after `seconds`."""

    seconds: float


@dataclass(slots=True)
class CallWindow:
    """The last calls, and how many of them failed, by chunk.

    Attributes:
        ends: When each call ended, and the chunk of a failed one; None: it succeeded.
            The chunk is empty for calls without a chunk.
    """

    ends: deque[tuple[float, str | None]] = field(default_factory=deque)
    failures: Counter[str] = field(default_factory=Counter)
    failed: int = 0

    def add(self, now: float, rules: CircuitBreaker, failed_chunk: str | None) -> None:
        """Add a call, and drop the calls that are too old or too many.

        A failure is not added if its chunk has enough of them already.
        """
        self._drop_before(now - rules.window_s)
        if failed_chunk is not None:
            if failed_chunk and self.failures[failed_chunk] >= rules.most_of_one_chunk:
                return
            self.failures[failed_chunk] += 1
            self.failed += 1
        self.ends.append((now, failed_chunk))
        if len(self.ends) > rules.window_calls:
            self._drop_first()

    @property
    def is_of_one_chunk(self) -> bool:
        """Whether all failures are of the same chunk: its input may be the cause."""
        return len(self.failures) == 1 and "" not in self.failures

    def _drop_before(self, oldest: float) -> None:
        while self.ends and self.ends[0][0] < oldest:
            self._drop_first()

    def _drop_first(self) -> None:
        _, chunk = self.ends.popleft()
        if chunk is None:
            return
        self.failed -= 1
        self.failures[chunk] -= 1
        if not self.failures[chunk]:
            del self.failures[chunk]


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
        return Permit(self.generation, self.probe_until)

    def note_other_probe(self, until: float) -> None:
        """Note that another process has the probe, at least until that time."""
        if self.phase is BreakerPhase.OPEN:
            self.probe_until = max(self.probe_until, until)

    def record_end(
        self, permit: Permit, health: Health, now: float, chunk: str = ""
    ) -> None:
        """Record how a call ended; ignore a call of an earlier generation.

        `chunk`: identifies the chunk that made the call; empty: it has none.
        """
        if permit.generation != self.generation:
            return
        if permit.probe_until:
            self._record_probe(permit, health, now)
        elif self.phase is BreakerPhase.CLOSED and health.is_counted:
            window = self.window
            window.add(now, self.rules, chunk if health is Health.FAILURE else None)
            many = self.rules.should_open(window.failed, len(window.ends))
            if many and not window.is_of_one_chunk:
                self.open(now + self.rules.open_period_s(0, self.rng))

    def _record_probe(self, permit: Permit, health: Health, now: float) -> None:
        match health:
            case Health.FAILURE:
                failed = self.failed_probes + 1
                self.open(now + self.rules.open_period_s(failed, self.rng), failed)
            case Health.UNKNOWN:  # one that counted as lost frees no other's place
                if permit.probe_until == self.probe_until:
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
