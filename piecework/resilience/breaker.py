"""Decide whether a dependency may be called. Pure: the time is passed in.

    closed      too many of the last calls failed,
                those of two chunks at least        -> open
    open        the open period is over             -> half-open
    half-open   the one probe was answered          -> closed
                the probe failed                    -> open, for longer

Each of these periods is a generation. The failure of a call of an earlier generation is
ignored.

A failing chunk is an outlier once the dependency has answered more other chunks since
than are failing. Its failures say nothing about the dependency: they open no breaker
and fail no probe. Its calls need no permit, and spend its attempts.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from enum import Enum, StrEnum, auto
from math import floor, inf
from random import Random
from typing import TYPE_CHECKING, Final, TypeAlias

from piecework.errors import TransientError, UsageError
from piecework.errors.codes import ErrorClass
from piecework.resilience.lanes import NO_ROOM_CODE

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
#: So many failing chunks are known by name, and one more that was answered. The names
#: are in the record of the fleet, which workers read twice a second. While so many
#: fail, all wait for a probe.
MOST_FAILING: Final = 32
#: Seconds for which a chunk counts as failing. It has ended by then, most likely.
REMEMBERED_S: Final = 900.0
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
        answers with a rate limit, without room in a cheap lane, or with a body that
        cannot be decoded: it works.
        """
        if failure.code in OUR_CODES:
            return Health.UNKNOWN
        works = DECODING_CODES | {NO_ROOM_CODE}
        if is_rate_limited(failure) or failure.code in works:
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
    `began`: when the permit was given.
    """

    generation: int
    probe_until: float = 0.0
    began: float = field(default=0.0, compare=False)


@dataclass(frozen=True, slots=True)
class Rejected:
    """The breaker rejects a call; the caller may ask again after `seconds`."""

    seconds: float


#: Times in seconds since 1970, by chunk.
Times: TypeAlias = Mapping[str, float]


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

    @property
    def failing(self) -> Times:
        """When each of its chunks failed first."""
        return {chunk: self.since(chunk) for chunk in self.failures}

    def since(self, chunk: str) -> float:
        """Return when a chunk failed first."""
        return next(at for at, failed in self.ends if failed == chunk)

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


@dataclass(frozen=True, slots=True)
class Heard:
    """The chunks that fail, and those that the dependency has answered meanwhile.

    Attributes:
        failing: Since when each failing chunk fails. One failure does not make a chunk
            a failing one.
        answered: When the last answered call of each chunk began. A call that began
            before an outage may be answered in it.

    Its times are whole milliseconds, as the record has them. A time that the record
    cannot hold would be news for ever, and each worker would write it twice a second.
    """

    failing: Times = field(default_factory=dict)
    answered: Times = field(default_factory=dict)

    def __or__(self, other: Heard) -> Heard:
        """Return what two processes have heard: the latest time of each chunk."""
        return Heard(
            latest(self.failing, other.failing), latest(self.answered, other.answered)
        )

    @property
    def still_failing(self) -> AbstractSet[str]:
        """The failing chunks of which no later call was answered."""
        answered = self.answered
        return {c for c, at in self.failing.items() if answered.get(c, 0.0) <= at}

    def is_outlier(self, chunk: str) -> bool:
        """Return whether a chunk fails while the dependency answers most others."""
        failing = self.still_failing
        if chunk not in failing or len(failing) >= MOST_FAILING:
            return False
        since = self.failing[chunk]
        others = sum(c not in failing and at > since for c, at in self.answered.items())
        return others > len(failing)

    @property
    def undecided(self) -> AbstractSet[str]:
        """The failing chunks that are not outliers: it may be an outage."""
        return {chunk for chunk in self.still_failing if not self.is_outlier(chunk)}

    def with_failing(self, since: Times, now: float) -> Heard:
        """Add failing chunks, unless they are known; forget those of long ago."""
        known = self.still_failing
        new = {c: whole_ms(at) for c, at in since.items() if c and c not in known}
        found = latest(self.failing, new).items()
        kept = {c: at for c, at in found if c in new or now - at <= REMEMBERED_S}
        return Heard(newest(kept, MOST_FAILING), self.answered)

    def with_answer(self, chunk: str, began: float) -> Heard:
        """Add the answer of a call that began at this time."""
        began = whole_ms(began)
        if not chunk or began <= self.answered.get(chunk, 0.0):
            return self
        answered: Times = {**self.answered, chunk: began}
        if len(answered) > 2 * MOST_FAILING:
            answered = newest(answered, MOST_FAILING + 1)
        return Heard(self.failing, answered)

    def news(self, known: Heard) -> Heard:
        """Return what the record lacks: failing chunks, and the answers that decide."""
        failing = later(self.failing, known.failing)
        both = Heard({**known.failing, **failing}, known.answered)
        since = min((both.failing[chunk] for chunk in both.undecided), default=inf)
        answered = {
            chunk: at
            for chunk, at in later(self.answered, known.answered).items()
            if chunk in both.still_failing or at > since >= known.answered.get(chunk, 0)
        }
        return Heard(failing, newest(answered, MOST_FAILING + 1))


def whole_ms(seconds: float) -> float:
    """Return a time as the record of the fleet has it."""
    return floor(seconds * 1000) / 1000


def latest(one: Times, other: Times) -> Times:
    """Return the later time of each chunk."""
    return {**one, **later(other, one)}


def later(times: Times, known: Times) -> Times:
    """Return the chunks that are later than known."""
    return {chunk: at for chunk, at in times.items() if at > known.get(chunk, 0.0)}


def newest(times: Times, most: int) -> Times:
    """Return the chunks with the latest times."""
    if len(times) <= most:
        return times
    return dict(sorted(times.items(), key=lambda item: item[1])[-most:])


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
    heard: Heard = field(default_factory=Heard)

    def request_permit(
        self, now: float, probe_s: float, chunk: str = ""
    ) -> Permit | Rejected:
        """Allow a call or reject it; the first call after the open period is the probe.

        An outlier needs no probe: it spends its attempts while other chunks wait.
        `probe_s`: seconds after which a probe without an answer counts as lost.
        """
        if self.phase is BreakerPhase.CLOSED or self.heard.is_outlier(chunk):
            return Permit(self.generation, began=now)
        if now < self.open_until:
            return Rejected(self.open_until - now)
        if now < self.probe_until:
            return Rejected(min(PROBE_RETRY_S, self.probe_until - now))
        self.probe_until = now + probe_s
        return Permit(self.generation, self.probe_until, now)

    def note_other_probe(self, until: float) -> None:
        """Note that another process has the probe, at least until that time."""
        if self.phase is BreakerPhase.OPEN:
            self.probe_until = max(self.probe_until, until)

    def record_end(
        self,
        permit: Permit,
        health: Health,
        now: float,
        chunk: str = "",
        failed_at: float = 0.0,
    ) -> None:
        """Record how a call ended; ignore the failure of an earlier generation.

        `chunk`: identifies the chunk that made the call; empty: it has none.
        `failed_at`: since when its calls failed before its claim; 0.0: none did.
        """
        if health is Health.SUCCESS:
            self.heard = self.heard.with_answer(chunk, permit.began)
        if permit.generation != self.generation:
            return
        if health is Health.FAILURE:
            if failed_at:
                self.heard = self.heard.with_failing({chunk: failed_at}, now)
            if self.heard.is_outlier(chunk):
                health = Health.UNKNOWN
        if permit.probe_until:
            self._record_probe(permit, health, now, chunk)
        elif self.phase is BreakerPhase.CLOSED and health.is_counted:
            self._count(health, now, chunk)

    def _count(self, health: Health, now: float, chunk: str) -> None:
        window, rules = self.window, self.rules
        window.add(now, rules, chunk if health is Health.FAILURE else None)
        if window.failures[chunk] >= rules.most_of_one_chunk:
            self.heard = self.heard.with_failing({chunk: window.since(chunk)}, now)
        many = rules.should_open(window.failed, len(window.ends))
        if many and not window.is_of_one_chunk:
            self.heard = self.heard.with_failing(window.failing, now)
            self.open(now + rules.open_period_s(0, self.rng))

    def _record_probe(
        self, permit: Permit, health: Health, now: float, chunk: str
    ) -> None:
        match health:
            case Health.FAILURE:
                failed = self.failed_probes + 1
                self.heard = self.heard.with_failing({chunk: now}, now)
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
