"""Define a job at its end: its chunks, their tallies, and the workers that count."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from verification.model.state import Js

GROUPS = ((0, 1), (2,))
CHUNKS, GENS = 3, 2
FULL = (1 << len(GROUPS)) - 1


class St(IntEnum):
    """A chunk: OPEN has work left; DEAD may be reopened."""

    OPEN, SUCCEEDED, DEAD = range(3)


class Pc(IntEnum):
    """The position of a worker."""

    IDLE, COUNT, GROUP, READ_JOB, READ_CHUNK, FINALIZE, JOIN = range(7)


class Worker(NamedTuple):
    """A worker: the chunk that it counts, or reads.

    Attributes:
        gen: The generation of the job that it read, or whose join it runs.
        seen_dead: The chunks that it read as DEAD, as bits.
        kept_gen: The generation whose snapshot it keeps; 0: it keeps no snapshot.
    """

    pc: Pc = Pc.IDLE
    chunk: int = 0
    gen: int = 0
    seen_dead: int = 0
    kept_gen: int = 0


class State(NamedTuple):
    """A job, its chunks, its tallies and its workers.

    Attributes:
        uncounted: Chunks that a worker has yet to count, as bits.
        lost: Open chunks without a message, as bits.
        tallies: For each group, the chunks counted as ended, as bits.
        full: The groups counted as full, as bits.
        reopening: Whether chunk 0 must be removed from its tally, and reopened.
    """

    st: Js = Js.RUNNING
    gen: int = 1
    chunks: tuple[St, ...] = (St.OPEN,) * CHUNKS
    uncounted: int = 0
    lost: int = 0
    tallies: tuple[int, ...] = (0,) * len(GROUPS)
    full: int = 0
    reopening: int = 0
    workers: tuple[Worker, ...] = (Worker(), Worker())


def group_of(number: int) -> int:
    return next(g for g, members in enumerate(GROUPS) if number in members)


def put(s: State, me: int, worker: Worker) -> State:
    return s._replace(workers=(*s.workers[:me], worker, *s.workers[me + 1 :]))


def with_chunk(s: State, number: int, chunk: St) -> State:
    return s._replace(chunks=(*s.chunks[:number], chunk, *s.chunks[number + 1 :]))
