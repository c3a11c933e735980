"""Model a long wait: the chunk leaves the queue, and the reconciler sends it when due.

The model has one chunk, two workers, its messages and a reconciler. Each process may
die between its two requests, and the reconciler may be late. SQS may lose a message or
deliver it twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import NamedTuple

from verification.model.small_model import Has, Move, SmallModel

#: Long waits of the chunk, and copies of its message, that are distinguished.
MAX_WAITS, COPIES = 2, 2


class Pc(IntEnum):
    """The position of a worker: its next step."""

    IDLE, CLAIM, WORK, DELETE = range(4)


class State(NamedTuple):
    """A chunk, its messages, two workers, and the reconciler.

    Attributes:
        running: 1 + the number of the owner; 0: no worker owns it.
        waits: The number of its long waits; `waiting`: whether it is in one.
        recorded: Whether its record has the time of its next dispatch.
        succeeded: Whether it has succeeded.
        queue: Copies of its message that no worker has received.
        workers: The position of each worker.
        to_send: Whether the reconciler has recorded a dispatch, but not sent it yet.
    """

    running: int = 0
    waits: int = 0
    waiting: int = 0
    recorded: int = 0
    succeeded: int = 0
    queue: int = 1
    workers: tuple[Pc, Pc] = (Pc.IDLE, Pc.IDLE)
    to_send: int = 0


def moves(has: Has, s: State) -> Iterator[Move]:
    for number, pc in enumerate(s.workers):
        yield from worker(has, s, number, pc)
    yield from reconciler(has, s)
    if s.waiting:
        yield Move(s._replace(waiting=0), "time: the wait is over")
    if s.queue:
        yield Move(s._replace(queue=s.queue - 1), "SQS loses a message", fault=True)
    if 0 < s.queue < COPIES:
        yield Move(s._replace(queue=s.queue + 1), "SQS copies a message", fault=True)


def worker(has: Has, s: State, number: int, pc: Pc) -> Iterator[Move]:
    """Yield the steps of a worker; when it dies, its message is visible again."""
    name = f"worker {number}"

    def to(position: Pc, **facts: int) -> State:
        workers = list(s.workers)
        workers[number] = position
        return s._replace(workers=(workers[0], workers[1]), **facts)

    if pc == Pc.IDLE:
        if s.queue:
            yield Move(to(Pc.CLAIM, queue=s.queue - 1), f"{name} receives it")
        return
    queue = min(s.queue + 1, COPIES)
    released = {"running": 0} if s.running == number + 1 else {}
    yield Move(to(Pc.IDLE, queue=queue, **released), f"{name} DIES", fault=True)
    match pc:
        case Pc.CLAIM:
            yield from claim(s, number, to)
        case Pc.WORK:
            facts = {"running": 0, "recorded": int(has("dispatch time is recorded"))}
            if s.waits < MAX_WAITS:
                waits = to(Pc.DELETE, **facts, waiting=1, waits=s.waits + 1)
                yield Move(waits, f"{name} records the wait", fault=True)
            yield Move(to(Pc.DELETE, running=0, succeeded=1), f"{name} SUCCEEDS")
        case Pc.DELETE:
            yield Move(to(Pc.IDLE), f"{name} deletes the message")


def claim(s: State, number: int, move: Callable[..., State]) -> Iterator[Move]:
    """Claim the chunk, or be refused."""
    name = f"worker {number}"
    if s.succeeded:
        yield Move(move(Pc.DELETE), f"{name} finds an ended chunk")
    elif s.waiting:
        yield Move(move(Pc.DELETE), f"{name} is too early")
    elif s.running:
        queue = min(s.queue + 1, COPIES)
        yield Move(move(Pc.IDLE, queue=queue), f"{name} is refused")
    else:
        yield Move(move(Pc.WORK, running=number + 1), f"{name} claims")


def reconciler(has: Has, s: State) -> Iterator[Move]:
    """Record the dispatch, then send; it may die in between."""
    if s.to_send:
        queue = min(s.queue + 1, COPIES)
        yield Move(s._replace(to_send=0, queue=queue), "reconciler sends it")
        yield Move(s._replace(to_send=0), "reconciler DIES", fault=True)
    elif not (s.succeeded or s.running or s.waiting) and s.recorded:
        recorded = 1 if has("next dispatch time is recorded") else 0
        after = s._replace(to_send=1, recorded=recorded)
        yield Move(after, "reconciler records a dispatch")


def ended(s: State) -> bool:
    return bool(s.succeeded)


LONG_WAITS = SmallModel("long waits", State(recorded=1), moves, ended)
