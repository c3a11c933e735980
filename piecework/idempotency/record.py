"""What is remembered of an operation, and what that says to whoever asks for it again.

BEGUN      somebody is at it, until the lease ends; after that nobody can tell
DONE       it was carried out; this was the answer
REFUSED    it was plainly refused, and is not to be asked again
RELEASED   it plainly did not happen: the next may begin
UNKNOWN    a call failed in a way that does not say what happened behind it
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeAlias

from piecework.keys import provider_key


class State(StrEnum):
    """How far an operation is."""

    BEGUN = "BEGUN"
    DONE = "DONE"
    REFUSED = "REFUSED"
    RELEASED = "RELEASED"
    UNKNOWN = "UNKNOWN"


@dataclass(frozen=True, slots=True)
class Slot:
    """Which operation is meant.

    Attributes:
        key: Equal for the same operation; of a numbered one, that of its stream.
        payload: The hash of its arguments: the same operation has the same.
        number: Its place in the stream, from 1; 0: it is in none.
        operation: Its name, for people who read the store.
    """

    key: str
    payload: str
    number: int = 0
    operation: str = ""

    @property
    def name(self) -> str:
        """Its key, 64 hex digits, that of a numbered one included: what is sent."""
        return provider_key(self.key, self.number) if self.number else self.key


@dataclass(frozen=True, slots=True)
class Asked:
    """A wish to begin an operation.

    Attributes:
        fence: A word that nobody else has: whoever ends the operation must know it.
        lease_s: Seconds until somebody else may take it to be cut off.
        kept_s: Seconds that what came of it is remembered.
        repeats: Whether what may have happened may be begun again.
    """

    slot: Slot
    fence: str
    lease_s: float
    kept_s: float
    repeats: bool = True


@dataclass(frozen=True, slots=True)
class Record:
    """An operation as it is remembered; both moments are seconds since 1970.

    Attributes:
        value: The answer, or the envelope of the refusal, as JSON; None: not kept.
        valid_until: From then on it counts as absent; None: as long as nobody decides.
    """

    state: State
    payload: str
    fence: str
    lease_until: float
    valid_until: float | None = None
    value: str | None = None


@dataclass(frozen=True, slots=True)
class Granted:
    """Carry it out; `doubtful`: an earlier call may have done so."""

    doubtful: bool = False


@dataclass(frozen=True, slots=True)
class Held:
    """Somebody is at it, for so many more seconds at most."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Ended:
    """It has been carried out, or refused; `value` is None if it is not kept."""

    state: State
    value: str | None


@dataclass(frozen=True, slots=True)
class Mismatch:
    """It was asked for with other arguments."""


@dataclass(frozen=True, slots=True)
class InDoubt:
    """It may have happened, and must not be begun again: a person decides."""


@dataclass(frozen=True, slots=True)
class OutOfOrder:
    """Another number of the stream is due."""

    expected: int


Verdict: TypeAlias = Granted | Held | Ended | Mismatch | InDoubt | OutOfOrder


def judge(record: Record | None, asked: Asked, now: float) -> Verdict:
    """Say what a record means for a wish to begin."""
    if record is None or expired(record, now) or record.state is State.RELEASED:
        return Granted()
    if record.payload != asked.slot.payload:
        return Mismatch()
    if in_doubt(record, now):
        return Granted(doubtful=True) if asked.repeats else InDoubt()
    if record.state is State.BEGUN:
        return Held(record.lease_until - now)
    return Ended(record.state, record.value)


def in_doubt(record: Record, now: float) -> bool:
    """Say whether nobody can tell what came of an operation."""
    cut_off = record.state is State.BEGUN and record.lease_until <= now
    return cut_off or record.state is State.UNKNOWN


def expired(record: Record, now: float) -> bool:
    """Say whether a record is over: stores delete late, or never."""
    return record.valid_until is not None and record.valid_until <= now


def begun(asked: Asked, now: float) -> Record:
    """Return the record of an operation that begins.

    One that must not be repeated stays until its end is known.
    """
    until = now + asked.lease_s
    return Record(
        State.BEGUN,
        asked.slot.payload,
        asked.fence,
        lease_until=until,
        valid_until=until + asked.kept_s if asked.repeats else None,
    )


def settled(
    record: Record, asked: Asked, state: State, value: str | None, now: float
) -> Record:
    """Return a record with what came of its operation."""
    if state in {State.DONE, State.REFUSED}:
        return replace(record, state=state, value=value, valid_until=now + asked.kept_s)
    return replace(record, state=state)
