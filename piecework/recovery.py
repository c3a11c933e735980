"""Every failure's fate, once tier one is spent: the whole policy in one function.

    class               pivot ahead            pivot in doubt     pivot behind
    transient, state    again; last: undo      again; last: dead  again; last: dead
    semantic            replan, else undo      dead               replan, else dead
    policy              fall back, else undo   dead               fall back, else dead
    permanent           undo                   dead               dead

A stage goes another way only if none of its effects stands: the calls of the other way
have keys of their own, and would do it once more. "Again" is a new claim, which reads
all that it needs from the tables: the last checkpoint is restored. "Undo" compensates
in reverse order and then writes the dead letter. Where the pivot is, or may be, behind,
nothing is ever undone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from random import Random
from typing import TypeAlias

from piecework import ways
from piecework.breaker import OPEN_CODE, PROBED_S
from piecework.codes import ErrorClass
from piecework.dependency import waited_for
from piecework.errors import ErrorEnvelope
from piecework.outcome import Compensation
from piecework.pipeline import Stage

#: Tier two waits `uniform(0, min(CAP, BASE * 2**attempt))` seconds: full jitter, as
#: in the AWS Architecture Blog's "Exponential Backoff and Jitter".
BASE = 2.0
CAP = 300.0
#: The same where there was no retry left, which is soon over.
PARKED_CAP = 30.0
#: Seconds that are waited at the most because the other side asked for it: a quota of a
#: day comes back; what asks for years is asked again.
ASKED_CAP = 86_400.0
#: Beyond so many every cap is reached; a float does not take 1,024 of them.
DOUBLINGS = 10
#: How often a chunk waits for a retry to be left before that spends its attempts, too:
#: without a breaker, what never works would be waited for without an end.
MOST_PARKS = 10


class Pivot(Enum):
    """Where the point of no return lies, seen from a failure."""

    AHEAD = auto()
    IN_DOUBT = auto()
    BEHIND = auto()


@dataclass(frozen=True, slots=True)
class Again:
    """Hand the chunk out again after `delay` seconds.

    Attributes:
        waits_for: The dependency that nobody asks now; empty: an attempt is spent.
    """

    delay: float
    waits_for: str = ""


@dataclass(frozen=True, slots=True)
class Undo:
    """Compensate, then write a dead letter."""


@dataclass(frozen=True, slots=True)
class Bury:
    """Write a dead letter and undo nothing, for the given reason."""

    reason: Compensation


Decision: TypeAlias = Again | Undo | Bury


def another_way(
    stage: Stage, failure: ErrorEnvelope, tried: Sequence[str], pivot: Pivot
) -> str | None:
    """Return the way that a stage without standing effects goes after a failure.

    `tried`: the ways that it has gone in this attempt; None: there is no other.
    """
    if pivot is Pivot.IN_DOUBT:
        return None
    match failure.error_class:
        case ErrorClass.SEMANTIC if stage.replan:
            return ways.REPLAN if tried.count(ways.REPLAN) < stage.replans else None
        case ErrorClass.POLICY:
            untried = (way for way in ways.fallbacks(stage) if way not in tried)
            return next(untried, None)
        case _:
            return None


def decide(
    failure: ErrorEnvelope,
    *,
    attempts_left: int,
    attempt: int,
    pivot: Pivot,
    rng: Random,
    parks: int = 0,
) -> Decision:
    """Return what becomes of a chunk whose stage failed for good in this run.

    `parks`: how often it has waited for a dependency that nobody asked.
    """
    waits_for = waited_for(failure)
    if waits_for and (failure.code == OPEN_CODE or parks < MOST_PARKS):
        return Again(until_asked(failure, attempt, parks, rng), waits_for)
    comes_back = failure.error_class in {ErrorClass.TRANSIENT, ErrorClass.STATE}
    if comes_back and attempts_left > 0:
        return Again(delay(failure, attempt, rng))
    match pivot:
        case Pivot.AHEAD:
            return Undo()
        case Pivot.IN_DOUBT:
            return Bury(Compensation.PIVOT_IN_DOUBT)
        case Pivot.BEHIND:
            return Bury(Compensation.PAST_PIVOT)


def delay(failure: ErrorEnvelope, attempt: int, rng: Random) -> float:
    """Return the seconds before the next attempt, after those the provider asked."""
    return asked_for(failure) + rng.uniform(0, doubled(CAP, attempt))


def until_asked(failure: ErrorEnvelope, attempt: int, parks: int, rng: Random) -> float:
    """Return the seconds until a dependency is asked again that nobody asks now.

    All who wait for the same breaker are spread over half as long again. Who has no
    retry left waits longer each time, for an attempt that is handed back grows nothing.
    """
    seconds = asked_for(failure)
    if failure.code == OPEN_CODE:
        return seconds + rng.uniform(0, max(PROBED_S, seconds / 2))
    cap = doubled(PARKED_CAP, attempt + parks)
    return seconds + rng.uniform(0, cap)


def asked_for(failure: ErrorEnvelope) -> float:
    """Return the seconds that the other side asked for, as far as that makes sense."""
    return min(ASKED_CAP, max(0.0, failure.retry_after or 0.0))


def doubled(cap: float, times: int) -> float:
    """Return BASE seconds, doubled so many times, and no more than the cap."""
    return min(cap, BASE * 2.0 ** min(times, DOUBLINGS))
