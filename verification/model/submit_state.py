"""Define the state of a job during its submit: chunks and fan-out processes."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from verification.model.state import Js

CHUNKS, GENS = 2, 2
#: Ticks without progress after which a submit counts as stopped.
MAX_IDLE_TICKS = 2


class Pc(IntEnum):
    """The position of a fan-out process."""

    IDLE, WRITE, OPEN, SEND = range(4)


class St(IntEnum):
    """A chunk's status; ENDED is any end except by a cancel."""

    ABSENT, PENDING, RUNNING, ENDED, CANCELLED = range(5)


class FanOut(NamedTuple):
    """A fan-out process: the generation that it read, and the next chunk.

    Attributes:
        progress: 0: it has just started; 1: progress is due; 2: it made progress since.
    """

    pc: Pc = Pc.IDLE
    gen: int = 0
    next: int = 0
    progress: int = 0


class Chunk(NamedTuple):
    """A chunk, and the generations of its messages, as bits."""

    st: St = St.ABSENT
    gen: int = 0
    messages: int = 0


class State(NamedTuple):
    """A job, its chunks, its fan-out processes, and the ticks without progress."""

    st: Js = Js.SUBMITTING
    gen: int = 1
    opened: int = 0
    chunks: tuple[Chunk, ...] = (Chunk(),) * CHUNKS
    fan_outs: tuple[FanOut, ...] = (FanOut(Pc.WRITE, 1), FanOut())
    idle_ticks: int = 0


def put(s: State, me: int, f: FanOut) -> State:
    return s._replace(fan_outs=(*s.fan_outs[:me], f, *s.fan_outs[me + 1 :]))


def with_chunk(s: State, number: int, chunk: Chunk) -> State:
    return s._replace(chunks=(*s.chunks[:number], chunk, *s.chunks[number + 1 :]))
