"""A job at its end: its chunks, the tallies of them, and the workers that count."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from verification.model.state import Js

GROUPS = ((0, 1), (2,))
CHUNKS, GENS = 3, 2
FULL = (1 << len(GROUPS)) - 1


class C(IntEnum):
    """A chunk: OPEN has work left; DEAD may be reopened."""

    OPEN, DONE, DEAD = range(3)


class Pc(IntEnum):
    """The position of a worker."""

    IDLE, COUNT, GROUP, READ, LOOK, FINALIZE, JOIN = range(7)


class Worker(NamedTuple):
    """A worker: the chunk that it counts, or how far it has looked.

    Attributes:
        gen: The life of the job that it read before it looked, or whose join it runs.
        saw: The chunks that it saw DEAD, as bits.
        kept: The life of which it keeps what it saw; 0: of none.
    """

    pc: Pc = Pc.IDLE
    at: int = 0
    gen: int = 0
    saw: int = 0
    kept: int = 0


class State(NamedTuple):
    """A job, its chunks, its tallies and its workers.

    Attributes:
        uncounted: Chunks whose message is still to be counted and deleted, as bits.
        lost: Chunks that are open and that no message speaks for, as bits.
        tallies: For each group, the chunks counted as ended, as bits.
        full: The groups counted as full, as bits.
        reopens: Whether chunk 0 is to be taken out of its tally, and reopened.
    """

    st: Js = Js.RUNNING
    gen: int = 1
    chunks: tuple[C, ...] = (C.OPEN,) * CHUNKS
    uncounted: int = 0
    lost: int = 0
    tallies: tuple[int, ...] = (0,) * len(GROUPS)
    full: int = 0
    reopens: int = 0
    workers: tuple[Worker, ...] = (Worker(), Worker())


def group_of(number: int) -> int:
    return next(g for g, members in enumerate(GROUPS) if number in members)


def put(s: State, me: int, worker: Worker) -> State:
    return s._replace(workers=(*s.workers[:me], worker, *s.workers[me + 1 :]))


def with_chunk(s: State, number: int, chunk: C) -> State:
    return s._replace(chunks=(*s.chunks[:number], chunk, *s.chunks[number + 1 :]))
