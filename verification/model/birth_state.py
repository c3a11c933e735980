"""Define the state of a job during its submit: chunks and fan-out processes."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from verification.model.state import Js

CHUNKS, GENS = 2, 2
#: Ticks without progress after which a submit counts as stopped midway.
QUIET = 2


class At(IntEnum):
    """The position of a fan-out process."""

    IDLE, WRITE, OPEN, SEND = range(4)


class B(IntEnum):
    """A chunk: BUSY in a worker's hands."""

    ABSENT, PENDING, BUSY, ENDED, CANCELLED = range(5)


class Fan(NamedTuple):
    """One that fans out: the life that it read, and the chunk that it comes to next.

    Attributes:
        pulse: 0: it has only begun; 1: a sign of life is due; 2: it got on since then.
    """

    at: At = At.IDLE
    gen: int = 0
    next: int = 0
    pulse: int = 0


class Chunk(NamedTuple):
    """A chunk, and the generations of the messages that speak for it, as bits."""

    st: B = B.ABSENT
    gen: int = 0
    messages: int = 0


class State(NamedTuple):
    """A job, its chunks, its fan-out processes, and the ticks without progress."""

    st: Js = Js.SUBMITTING
    gen: int = 1
    opened: int = 0
    chunks: tuple[Chunk, ...] = (Chunk(),) * CHUNKS
    fans: tuple[Fan, ...] = (Fan(At.WRITE, 1), Fan())
    age: int = 0


def put(s: State, me: int, fan: Fan) -> State:
    return s._replace(fans=(*s.fans[:me], fan, *s.fans[me + 1 :]))


def with_chunk(s: State, number: int, chunk: Chunk) -> State:
    return s._replace(chunks=(*s.chunks[:number], chunk, *s.chunks[number + 1 :]))
