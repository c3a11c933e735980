"""The stored record of an operation, and what it means for the next equal call.

BEGUN      a call is in progress until its lease ends; after that its outcome is unknown
DONE       the call succeeded; the record has its answer
REFUSED    the call was refused, and the refusal is the answer of equal calls
RELEASED   the call certainly did not happen: the next call may begin
UNKNOWN    the call failed, and it is not known whether it happened
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeAlias

from piecework.domain.keys import provider_key


class State(StrEnum):
    """The state of an operation."""

    BEGUN = "BEGUN"
    DONE = "DONE"
    REFUSED = "REFUSED"
    RELEASED = "RELEASED"
    UNKNOWN = "UNKNOWN"


@dataclass(frozen=True, slots=True)
class OperationRef:
    """The names of an operation in a store.

    Attributes:
        key: Equal for equal operations; for a numbered one, the key of its stream.
        payload: The hash of the arguments. Equal operations have the same.
        number: The position in the stream, from 1; 0: the operation is not in a stream.
        operation: The name, for people who read the store.
    """

    key: str
    payload: str
    number: int = 0
    operation: str = ""

    @property
    def name(self) -> str:
        """The key that the provider sees, 64 hex digits; it includes the number."""
        return provider_key(self.key, self.number) if self.number else self.key


@dataclass(frozen=True, slots=True)
class BeginRequest:
    """A request to begin an operation.

    Attributes:
        owner_token: Token of this call; required to record its outcome. A call of a
            chunk has the same token in each claim, so that it continues its own record.
        lease_s: Seconds after which another call may regard this one as cut off.
        ttl_s: Seconds that the outcome is remembered.
        repeatable: Whether an operation that may have happened may begin again.
    """

    ref: OperationRef
    owner_token: str
    lease_s: float
    ttl_s: float
    repeatable: bool = True


@dataclass(frozen=True, slots=True)
class Record:
    """A stored operation. Both times are seconds since 1970.

    Attributes:
        value: The answer, or the envelope of the refusal, as JSON; None: not stored.
        valid_until: From then on the record counts as absent; None: until an operator
            releases it.
    """

    state: State
    payload: str
    owner_token: str
    lease_until: float
    valid_until: float | None = None
    value: str | None = None


@dataclass(frozen=True, slots=True)
class Granted:
    """The call may be made; `doubtful`: an earlier call may have happened."""

    doubtful: bool = False


@dataclass(frozen=True, slots=True)
class InProgress:
    """Another call is in progress, for at most this many more seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Ended:
    """The operation succeeded or was refused; `value` is None if it is not stored.

    `own`: the request has the token of the call that ended it.
    """

    state: State
    value: str | None
    own: bool = False


@dataclass(frozen=True, slots=True)
class Mismatch:
    """The key was used with other arguments."""


@dataclass(frozen=True, slots=True)
class InDoubt:
    """The operation may have happened and is not repeatable: an operator decides."""


@dataclass(frozen=True, slots=True)
class OutOfOrder:
    """The stream expects another number."""

    expected: int


Verdict: TypeAlias = Granted | InProgress | Ended | Mismatch | InDoubt | OutOfOrder


def judge(record: Record | None, request: BeginRequest, now: float) -> Verdict:
    """Return what a record means for a request to begin."""
    if record is None or expired(record, now) or record.state is State.RELEASED:
        return Granted()
    if record.payload != request.ref.payload:
        return Mismatch()
    own = record.owner_token == request.owner_token
    if own and record.state is State.BEGUN:
        return Granted()
    if in_doubt(record, now):
        return Granted(doubtful=True) if request.repeatable else InDoubt()
    if record.state is State.BEGUN:
        return InProgress(record.lease_until - now)
    return Ended(record.state, record.value, own)


def in_doubt(record: Record, now: float) -> bool:
    """Return whether the outcome of an operation is unknown."""
    cut_off = record.state is State.BEGUN and record.lease_until <= now
    return cut_off or record.state is State.UNKNOWN


def expired(record: Record, now: float) -> bool:
    """Return whether a record is expired: stores delete late, or never."""
    return record.valid_until is not None and record.valid_until <= now


def begun_record(request: BeginRequest, now: float) -> Record:
    """Return the record of an operation that begins.

    If the operation must not be repeated, its record stays until its outcome is known.
    """
    until = now + request.lease_s
    return Record(
        State.BEGUN,
        request.ref.payload,
        request.owner_token,
        lease_until=until,
        valid_until=until + request.ttl_s if request.repeatable else None,
    )


def settled_record(
    record: Record, request: BeginRequest, state: State, value: str | None, now: float
) -> Record:
    """Return the record with the outcome of its operation."""
    if state in {State.DONE, State.REFUSED}:
        until = now + request.ttl_s
        return replace(record, state=state, value=value, valid_until=until)
    return replace(record, state=state)
