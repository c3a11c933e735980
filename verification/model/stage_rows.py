"""Model two stages of a chunk, whose values are in rows that the chunk's row names.

A claim begins a stage under its fence, writes the value to a row without a check, and
then lets the chunk name it, under its fence. A worker that lost the chunk may write its
row at any later time. The value of a claim is the number of its fence, and the second
value also has the first one that it was computed from.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple, TypeAlias

from verification.model.small_model import Has, Move, SmallModel

CLAIMS, STAGES = 3, 2
#: The rows of a stage, by the fence in their keys: the claim, and the value before it.
Row: TypeAlias = tuple[int, int]
NONE: Row = (0, 0)

GONE_ROW = "a named value exists"
MIXED = "a value is computed from the one that the chunk names"
SKIPPED = "a stage that a claim has begun is completed by it, or begun again"


class Pc(IntEnum):
    """The position of a claim's worker."""

    NONE, BEGIN, WRITE, NAME, END, GONE = range(6)


class Worker(NamedTuple):
    """A worker with its stage, and the value of the stage before that."""

    pc: Pc = Pc.NONE
    stage: int = 0
    before: int = 0


class State(NamedTuple):
    """A chunk, its rows, and its workers by their fences.

    Attributes:
        owner: The fence of the claim that owns the chunk; 0: none.
        named: The claim whose row counts, for each stage; 0: none.
        begun: The last claim that began an effect of each stage.
    """

    fence: int = 0
    owner: int = 0
    named: tuple[int, ...] = (0,) * STAGES
    begun: tuple[int, ...] = (0,) * STAGES
    rows: tuple[tuple[Row, ...], ...] = ((NONE,) * (CLAIMS + 1),) * STAGES
    workers: tuple[Worker, ...] = (Worker(),) * (CLAIMS + 1)
    ended: int = 0


def put(of: tuple[int, ...], at: int, value: int) -> tuple[int, ...]:
    return (*of[:at], value, *of[at + 1 :])


def moves(has: Has, s: State) -> Iterator[Move]:
    if not s.owner and not s.ended and s.fence < CLAIMS:
        yield claim(has, s)
    for fence, worker in enumerate(s.workers):
        if Pc.BEGIN <= worker.pc <= Pc.END:
            yield from step(has, s, fence, worker)
    if s.owner and s.fence < CLAIMS:
        yield Move(s._replace(owner=0), f"claim {s.owner} is TAKEN OVER", fault=True)
        dead = with_worker(s, s.owner, Worker(Pc.GONE))
        yield Move(dead._replace(owner=0), f"worker {s.owner} DIES", fault=True)


def with_worker(s: State, fence: int, worker: Worker) -> State:
    workers = (*s.workers[:fence], worker, *s.workers[fence + 1 :])
    return s._replace(workers=workers)


def row_of(has: Has, s: State, stage: int) -> tuple[int, Row]:
    """Return the claim whose row of a stage counts, and the row."""
    by = s.named[stage]
    if not has("a row counts once it is named"):
        by = max((n for n, row in enumerate(s.rows[stage]) if row != NONE), default=by)
    return by, s.rows[stage][by if has("fence in the key of a row") else 0]


def claim(has: Has, s: State) -> Move:
    """Claim the chunk, and load the values of its completed stages."""
    fence, before, broken = s.fence + 1, 0, ""
    stage = 0
    while stage < STAGES and (found := row_of(has, s, stage))[0]:
        _, (by, used) = found
        if not by:
            broken = GONE_ROW
        elif used != before:
            broken = MIXED
        elif s.begun[stage] != by:
            broken = SKIPPED
        before, stage = by, stage + 1
    pc = Pc.BEGIN if stage < STAGES else Pc.END
    after = with_worker(s, fence, Worker(pc, stage, before))
    label = f"claim {fence} finds {stage} values"
    return Move(after._replace(fence=fence, owner=fence), label, broken=broken)


def step(has: Has, s: State, fence: int, worker: Worker) -> Iterator[Move]:
    pc, stage, before = worker
    name, owns = f"worker {fence}", s.owner == fence
    row_first = has("row before its name")
    if pc in {Pc.BEGIN, Pc.NAME, Pc.END} and not owns:
        yield Move(with_worker(s, fence, Worker(Pc.GONE)), f"{name} is refused")
    elif pc == Pc.BEGIN:
        following = Pc.WRITE if row_first else Pc.NAME
        after = with_worker(s, fence, worker._replace(pc=following))
        begun = put(s.begun, stage, fence)
        yield Move(after._replace(begun=begun), f"{name} begins stage {stage}")
    elif pc == Pc.WRITE:
        at = fence if has("fence in the key of a row") else 0
        rows = (*s.rows[stage][:at], (fence, before), *s.rows[stage][at + 1 :])
        all_rows = (*s.rows[:stage], rows, *s.rows[stage + 1 :])
        named = worker._replace(pc=Pc.NAME) if row_first else next_stage(fence, stage)
        after = with_worker(s, fence, named)
        yield Move(after._replace(rows=all_rows), f"{name} writes value {stage}")
    elif pc == Pc.NAME:
        written = (
            next_stage(fence, stage) if row_first else worker._replace(pc=Pc.WRITE)
        )
        after = with_worker(s, fence, written)
        names = put(s.named, stage, fence)
        yield Move(after._replace(named=names), f"{name} names value {stage}")
    else:
        after = with_worker(s, fence, Worker(Pc.GONE))
        yield Move(after._replace(owner=0, ended=1), f"{name} ends the chunk")


def next_stage(fence: int, stage: int) -> Worker:
    """Return the worker after it has completed a stage."""
    pc = Pc.BEGIN if stage + 1 < STAGES else Pc.END
    return Worker(pc, stage + 1, fence)


def ended(s: State) -> bool:
    return bool(s.ended)


STAGE_ROWS = SmallModel("rows of stages", State(), moves, ended)
