"""Plan the starts of calls so that a fleet keeps to its limits. Pure: no clock.

    wanted calls + stored quota + time   ->   start times, and the next stored quota

The quota of a dependency is one schedule for the whole fleet. Each start follows the
one before it by the time that its request and its tokens take of a minute. A worker
that writes the next quota owns the starts before it. So no minute holds more starts
than the limit, whatever other workers do or fail to do.

All times are whole microseconds since 1970: sums of them are exact.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Final

from piecework.domain.moments import MICROS
from piecework.errors import PermanentError, TransientError, UsageError
from piecework.resilience.pace import UNPACED, Pace
from piecework.resilience.shares import Share

#: The code of a call that had no quota in time, and was not made.
QUOTA_CODE: Final = "runtime.quota.exhausted"
#: The code of a call to a dependency that an operator has paused.
DEPENDENCY_PAUSED_CODE: Final = "runtime.dependency.paused"
#: Seconds after which a chunk tries again whether its dependency is still paused.
PAUSED_RETRY_S: Final = 20.0
#: The code of a call that needs more tokens than the limit has for a whole minute.
TOO_LARGE_CODE: Final = "runtime.quota.call_too_large"

#: Seconds after its time at which a start may still be used.
LATEST_S: Final = 1.0
#: Seconds by which the clocks of two workers may differ without a minute above a limit.
CLOCK_DIFFERENCE_S: Final = 0.5
#: A limit is spread over a minute and both: 97.6 % of it can be used.
SPAN: Final = round((60 + LATEST_S + CLOCK_DIFFERENCE_S) * MICROS)
#: Tokens are known only after the answer: 96.8 % of their limit can be used.
TOKEN_SPAN: Final = SPAN + MICROS // 2
#: How far ahead a worker may reserve: what a worker loses that dies.
AHEAD: Final = round(1.25 * MICROS)


@dataclass(frozen=True, slots=True)
class Limits:
    """What the whole fleet may use of a dependency; None: no limit.

    Attributes:
        requests_per_minute: Attempts that start in any 60 seconds.
        tokens_per_minute: Tokens, in and out, of the calls that start in 60 seconds.
        concurrent: Calls in flight.
        requests_per_second: Attempts that start in any second.

    Raises:
        UsageError: `pipeline.declaration.invalid`.
    """

    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    concurrent: int | None = None
    requests_per_second: int | None = None

    def __post_init__(self) -> None:
        """Refuse a limit that no call could keep."""
        for each in fields(self):
            value = getattr(self, each.name)
            most = MOST_A_SECOND if each.name == "requests_per_second" else MOST
            if value is not None and not (type(value) is int and 1 <= value <= most):
                raise UsageError(
                    f"The limit {each.name} must be a whole number from 1 to {most}.",
                    code="pipeline.declaration.invalid",
                )

    def __bool__(self) -> bool:
        """Return whether there is any limit."""
        return self != NO_LIMITS

    @property
    def have_rate(self) -> bool:
        """Whether the starts of calls are limited, not only those in flight."""
        return not (self.scheduled_requests is self.tokens_per_minute is None)

    @property
    def scheduled_requests(self) -> int | None:
        """The requests of a minute, unless the limit of a second implies them."""
        implied = self.requests_a_minute != self.requests_per_minute
        return None if implied else self.requests_per_minute

    @property
    def are_divided(self) -> bool:
        """Whether each worker has a share of a limit."""
        return not (self.concurrent is self.requests_per_second is None)

    @property
    def requests_a_minute(self) -> int | None:
        """The requests that a minute may hold, by both limits of requests."""
        a_second = self.requests_per_second
        most = [self.requests_per_minute, a_second and a_second * SECONDS]
        return min((each for each in most if each is not None), default=None)

    @property
    def contradiction(self) -> str:
        """Why the limits, as they were given together, cannot be meant; or empty."""
        second, minute = self.requests_per_second or 0, self.requests_per_minute or MOST
        if second <= minute:
            return ""
        return f"{second:,} requests a second are more than {minute:,} a minute"

    def changed_by(self, other: Limits) -> Limits:
        """Return these limits, each replaced by the other's if that has one."""
        set_values = {each.name: getattr(other, each.name) for each in fields(other)}
        return replace(self, **{k: v for k, v in set_values.items() if v is not None})


#: The largest limit: a longer product would not be a safe integer in JSON.
MOST: Final = 1_000_000_000
#: The most requests in a second that one process could start.
MOST_A_SECOND: Final = 10_000
#: Seconds of a minute.
SECONDS: Final = 60
NO_LIMITS: Final = Limits()


@dataclass(frozen=True, slots=True)
class Start:
    """The right to start one call at a time, with so many tokens."""

    at: int
    tokens: int = 0

    def is_late(self, now: int) -> bool:
        """Return whether the start cannot be used any more."""
        return now - self.at >= round(LATEST_S * MICROS)


@dataclass(frozen=True, slots=True)
class Quota:
    """The stored state of a dependency's limits.

    Attributes:
        seq: Rises with each reservation.
        declared: The limits that the workers' code declares.
        operator: The limits that an operator has set; each replaces the declared one.
        requests_next, tokens_next: The earliest time of the next start.
        pace: The rate that the dependency's refusals allow.
        shares: The calls in flight that each worker may have.
        turns: The requests of a second that each worker may send.
        paused: Why and by whom the dependency is paused; empty: it is not.
    """

    seq: int = 0
    declared: Limits = NO_LIMITS
    operator: Limits = NO_LIMITS
    requests_next: int = 0
    tokens_next: int = 0
    pace: Pace = field(default=UNPACED)
    shares: Mapping[str, Share] = field(default_factory=dict)
    turns: Mapping[str, Share] = field(default_factory=dict)
    paused: str = ""

    @property
    def is_used(self) -> bool:
        """Whether a worker has used it, or an operator's limits are in it."""
        return self.seq > 0 or bool(self.operator)

    @property
    def limits(self) -> Limits:
        """The limits in force."""
        return self.declared.changed_by(self.operator)

    def are_divided_otherwise(self, other: Quota) -> bool:
        """Return whether a worker has another share than in the other quota."""
        return (self.shares, self.turns) != (other.shares, other.turns)

    def request_span(self, now: int) -> int:
        """Return how much of the schedule a request takes."""
        limit = self.limits.scheduled_requests
        paced = self.pace.interval(now)
        return max(paced, 0 if limit is None else -(-SPAN // limit))

    def token_span(self, tokens: int) -> int:
        """Return how much of the schedule so many tokens take; may be negative."""
        limit = self.limits.tokens_per_minute
        return 0 if limit is None else -(-tokens * TOKEN_SPAN // limit)

    def next_start(self, now: int) -> int:
        """Return the time of the next start that can be reserved."""
        return max(now, self.requests_next, self.tokens_next, self.pace.paused_until)


@dataclass(frozen=True, slots=True)
class Reply:
    """The stored quota after a write; `ours`: the write was applied."""

    quota: Quota
    ours: bool


def micros(seconds: float) -> int:
    """Return a time in whole microseconds."""
    return round(seconds * MICROS)


def plan_starts(
    quota: Quota,
    wanted: Iterable[int],
    now: int,
    *,
    correction: int = 0,
    delay: int = 0,
) -> tuple[Quota, tuple[Start, ...]]:
    """Return the next quota and the starts that its writer owns.

    `wanted` has the tokens of each call, in order. The calls that do not fit before
    `now + AHEAD` receive no start. `correction`: the tokens that earlier calls used
    above their estimates; negative if they used less. `delay`: the microseconds that
    the write needs; no start comes before its end.
    """
    quota = replace(quota, tokens_next=quota.tokens_next + quota.token_span(correction))
    starts = []
    for tokens in wanted:
        at = quota.next_start(now + delay)
        if at > now + AHEAD:
            break
        starts.append(Start(at, tokens))
        quota = replace(
            quota,
            requests_next=at + quota.request_span(at),
            tokens_next=at + quota.token_span(tokens),
        )
    return replace(quota, seq=quota.seq + 1), tuple(starts)


def require_possible(dependency: str, tokens: int, limits: Limits) -> None:
    """Check that a call can ever be made.

    Raises:
        PermanentError: `runtime.quota.call_too_large`.
    """
    limit = limits.tokens_per_minute
    if limit is not None and tokens > limit:
        message = (
            f"A call to {dependency} needs about {tokens:,} tokens;"
            f" its limit is {limit:,} tokens a minute."
        )
        raise PermanentError(message, code=TOO_LARGE_CODE)


def quota_exhausted_error(dependency: str, seconds: float) -> TransientError:
    """Return the error of a call that had no quota for too long."""
    return TransientError(
        f"The limits of {dependency} had no quota for this call in time.",
        code=QUOTA_CODE,
        retry_after=seconds,
        dependency=dependency,
    )


def dependency_paused_error(dependency: str, paused: str) -> TransientError:
    """Return the error of a call to a paused dependency."""
    return TransientError(
        f"Dependency {dependency} is paused: {paused}",
        code=DEPENDENCY_PAUSED_CODE,
        retry_after=PAUSED_RETRY_S,
        dependency=dependency,
    )
