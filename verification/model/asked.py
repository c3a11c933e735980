"""Model a compensating cancel of a chunk that is deferred; its retry is not awaited.

The model has one chunk before its pivot, a worker and a sweep, at any speed. The time
of a retry never comes here. So a chunk that waits for its retry would wait for ever.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from verification.model.state import St
from verification.model.theme import Has, Move, Theme

#: The maximum number of claims that are distinguished.
FENCES = 3


class State(NamedTuple):
    """A chunk, its message, and what a sweep saw of it.

    Attributes:
        asked: Whether the cancel has asked for it; `back`: whether it is turned.
        retry: Whether it waits for a retry, and its message is hidden until then.
        seen: As the sweep looked at it: its status, fence, asked and retry.
    """

    st: St = St.RUNNING
    fence: int = 1
    asked: int = 0
    back: int = 0
    retry: int = 0
    message: int = 0
    seen: tuple[St, int, int, int] | None = None


def moves(has: Has, s: State) -> Iterator[Move]:
    if s.st == St.CANCELLED:
        return
    yield from sweep(has, s)
    if s.st == St.RUNNING:
        yield from holds(s)
        return
    if s.message:
        yield from meets(s)
        yield Move(s._replace(message=0), "SQS loses the message", fault=True)
    elif not s.retry:
        yield Move(s._replace(message=1), "reconciler sends it again")


def holds(s: State) -> Iterator[Move]:
    """Let the owner see the cancel, or not before it has released the chunk."""
    if s.asked:
        yield Move(ended(), "holder winds it back")
    if s.fence < FENCES:
        rests = s._replace(st=St.WAITING)
        yield Move(rests._replace(message=1), "worker DIES; given back", fault=True)
        if not s.back:
            yield Move(rests._replace(retry=1), "parks", fault=True)


def meets(s: State) -> Iterator[Move]:
    """A worker with its message, at once."""
    if s.asked and not s.back:
        yield Move(s._replace(back=1, retry=0), "worker turns it back")
    else:
        taken = s._replace(st=St.RUNNING, fence=s.fence + 1, message=0)
        yield Move(taken, "claims")


def sweep(has: Has, s: State) -> Iterator[Move]:
    """Model the sweep: one read, and later one conditional write."""
    if s.seen is None:
        if not s.back:
            saw = (s.st, s.fence, s.asked, s.retry)
            yield Move(s._replace(seen=saw), "sweep looks at it")
        return
    st, fence, asked, retry = s.seen
    rest = s._replace(seen=None)
    if st == St.RUNNING:
        if asked or s.st != St.RUNNING:
            yield Move(rest, "sweep leaves it")
        else:
            yield Move(rest._replace(asked=1), "sweep asks the holder")
        return
    spared = asked and not (retry and has("the parked are asked again"))
    if spared or (s.st, s.fence, s.back) != (St.WAITING, fence, 0):
        yield Move(rest, "sweep leaves it")
        return
    now = rest._replace(asked=1, retry=0)
    yield Move(now._replace(message=1), "sweep hands it out")
    yield Move(now, "sweeper DIES before it sends", fault=True)


def ended() -> State:
    return State(St.CANCELLED)


def has_ended(s: State) -> bool:
    return s.st == St.CANCELLED


ASKED = Theme("asked, and parked", State(), moves, has_ended)
