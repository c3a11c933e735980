"""Every failure's fate, once tier one is spent: the whole policy in one function.

    class               pivot ahead            pivot in doubt     pivot behind
    transient, state    again; last: undo      again; last: dead  again; last: dead
    the other classes   undo                   dead               dead

"Undo" compensates in reverse order and then writes the dead letter. Where the pivot
is, or may be, behind, nothing is ever undone.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from random import Random
from typing import TypeAlias

from piecework.codes import ErrorClass
from piecework.errors import ErrorEnvelope
from piecework.outcome import Compensation

#: Tier two waits `uniform(0, min(CAP, BASE * 2**attempt))` seconds: full jitter, as
#: in the AWS Architecture Blog's "Exponential Backoff and Jitter".
BASE = 2.0
CAP = 300.0


class Pivot(Enum):
    """Where the point of no return lies, seen from a failure."""

    AHEAD = auto()
    IN_DOUBT = auto()
    BEHIND = auto()


@dataclass(frozen=True, slots=True)
class Again:
    """Hand the chunk out again after `delay` seconds."""

    delay: float


@dataclass(frozen=True, slots=True)
class Undo:
    """Compensate, then write a dead letter."""


@dataclass(frozen=True, slots=True)
class Bury:
    """Write a dead letter and undo nothing, for the given reason."""

    reason: Compensation


Decision: TypeAlias = Again | Undo | Bury


def decide(
    failure: ErrorEnvelope,
    *,
    attempts_left: int,
    attempt: int,
    pivot: Pivot,
    rng: Random,
) -> Decision:
    """Return what becomes of a chunk whose stage failed for good in this run."""
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
    jitter = rng.uniform(0, min(CAP, BASE * 2.0**attempt))
    return (failure.retry_after or 0.0) + jitter
