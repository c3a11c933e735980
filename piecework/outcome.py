"""What an execution of a chunk comes to: a closed union, settled in one place."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from piecework.errors import ErrorEnvelope

#: What a chunk waits for that this version cannot go on with.
NEWER_WORKERS = "newer workers"


@dataclass(frozen=True, slots=True)
class Completed:
    """Every stage is done; the last one's value is not checkpointed yet."""

    value: str


@dataclass(frozen=True, slots=True)
class Parked:
    """It failed for now: tier two hands it out again after `delay` seconds.

    Attributes:
        waits_for: The dependency, or newer workers, that it waits for, through no fault
            of its own: no attempt is spent. Empty: one is.
        untried: The failure is its pivot's, of which nothing was tried so far.
    """

    failure: ErrorEnvelope
    delay: float
    waits_for: str = ""
    untried: bool = False


@dataclass(frozen=True, slots=True)
class Cancelled:
    """Its job was cancelled.

    Attributes:
        stage: The one that did not begin, or was cut off.
        compensation: What became of what it had done; None: it was left as it is.
    """

    stage: str
    compensation: Compensation | None = None


class Compensation(StrEnum):
    """What became of the steps that a chunk had taken."""

    #: It had taken none that can be undone.
    NOTHING = "nothing to undo"
    #: All were undone.
    DONE = "compensated"
    #: At least one could not be undone: a person has to.
    FAILED = "compensation failed"
    #: The point of no return was passed: nothing may be undone.
    PAST_PIVOT = "past the pivot"
    #: The point of no return may have been passed: a person decides.
    PIVOT_IN_DOUBT = "pivot in doubt"
    #: The compensation itself killed its worker too often.
    ABANDONED = "compensation abandoned"


@dataclass(frozen=True, slots=True)
class Dead:
    """It will not succeed by itself: a dead letter, to be fixed and redriven."""

    failure: ErrorEnvelope
    compensation: Compensation
    stranded: tuple[str, ...] = field(default=())


Outcome: TypeAlias = Completed | Parked | Cancelled | Dead
