"""Model a compensating cancel of a chunk that waits for its retry.

The model has one chunk before its pivot, a worker and a sweep, at any speed. The time
of the retry never comes, so the sweep must dispatch the chunk.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from verification.model.small_model import Has, Move, SmallModel
from verification.model.state import St

#: The maximum number of claims that are distinguished.
FENCES = 3


class State(NamedTuple):
    """A chunk, its message, and what the sweep has read.

    Attributes:
        requested: Whether the sweep has marked it; `compensates`: its direction.
        retry: Whether it waits for a retry, and SQS hides its message until then.
        read: What the sweep read: its status, fence, `requested` and `retry`.
    """

    st: St = St.RUNNING
    fence: int = 1
    requested: int = 0
    compensates: int = 0
    retry: int = 0
    message: int = 0
    read: tuple[St, int, int, int] | None = None


def moves(has: Has, s: State) -> Iterator[Move]:
    if s.st == St.CANCELLED:
        return
    yield from sweep(has, s)
    if s.st == St.RUNNING:
        yield from owner(s)
        return
    if s.message:
        yield from receive(s)
        yield Move(s._replace(message=0), "SQS loses the message", fault=True)
    elif not s.retry:
        yield Move(s._replace(message=1), "reconciler dispatches it")


def owner(s: State) -> Iterator[Move]:
    """Let the owner read the cancel, or end its claim first."""
    if s.requested:
        yield Move(ended(), "owner compensates it")
    if s.fence < FENCES:
        released = s._replace(st=St.WAITING)
        yield Move(released._replace(message=1), "worker DIES", fault=True)
        if not s.compensates:
            yield Move(released._replace(retry=1), "schedules a retry", fault=True)


def receive(s: State) -> Iterator[Move]:
    """Receive the message as a worker: set the direction, or claim."""
    if s.requested and not s.compensates:
        yield Move(s._replace(compensates=1, retry=0), "worker sets its direction")
    else:
        claimed = s._replace(st=St.RUNNING, fence=s.fence + 1, message=0)
        yield Move(claimed, "claims")


def sweep(has: Has, s: State) -> Iterator[Move]:
    """Model the sweep: one read, and later one conditional write."""
    if s.read is None:
        if not s.compensates:
            read = (s.st, s.fence, s.requested, s.retry)
            yield Move(s._replace(read=read), "sweep reads it")
        return
    st, fence, requested, retry = s.read
    after = s._replace(read=None)
    if st == St.RUNNING:
        if requested or s.st != St.RUNNING:
            yield Move(after, "sweep skips it")
        else:
            yield Move(after._replace(requested=1), "sweep marks it for its owner")
        return
    skipped = requested and not (retry and has("deferred chunks are swept again"))
    if skipped or (s.st, s.fence, s.compensates) != (St.WAITING, fence, 0):
        yield Move(after, "sweep skips it")
        return
    swept = after._replace(requested=1, retry=0)
    yield Move(swept._replace(message=1), "sweep dispatches it")
    yield Move(swept, "sweeper DIES before it sends", fault=True)


def ended() -> State:
    return State(St.CANCELLED)


def has_ended(s: State) -> bool:
    return s.st == St.CANCELLED


DEFERRED_CANCEL = SmallModel("cancel of a deferred chunk", State(), moves, has_ended)
