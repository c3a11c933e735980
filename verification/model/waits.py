"""Model a long wait: the chunk leaves the queue, and the reconciler sends it when due.

The model has one chunk, two workers, its messages and a reconciler. Each process may
die between its two requests, and the reconciler may be late. SQS may lose a message or
deliver it twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import NamedTuple

from verification.model.theme import Has, Move, Theme

#: Long waits of the chunk, and copies of its message, that are distinguished.
WAITS, COPIES = 2, 2


class Wk(IntEnum):
    """The position of a worker: its next step."""

    IDLE, CLAIM, WORK, DELETE = range(4)


class State(NamedTuple):
    """A chunk, its messages, two workers, and the reconciler.

    Attributes:
        running: 1 + the number of the owner; 0: no worker owns it.
        waits: The long waits that it has had; `far`: it is in one.
        said: Whether its record says when the reconciler sends it.
        over: Whether it has succeeded.
        queue: Copies of its message that no worker has received.
        workers: The position of each worker.
        unsent: The reconciler has recorded a redispatch, and has not sent it yet.
    """

    running: int = 0
    waits: int = 0
    far: int = 0
    said: int = 0
    over: int = 0
    queue: int = 1
    workers: tuple[Wk, Wk] = (Wk.IDLE, Wk.IDLE)
    unsent: int = 0


def moves(has: Has, s: State) -> Iterator[Move]:
    for number, at in enumerate(s.workers):
        yield from worker(has, s, number, at)
    yield from reconciler(has, s)
    if s.far:
        yield Move(s._replace(far=0), "time: the wait is over")
    if s.queue:
        yield Move(s._replace(queue=s.queue - 1), "SQS loses a message", fault=True)
    if 0 < s.queue < COPIES:
        yield Move(s._replace(queue=s.queue + 1), "SQS doubles a message", fault=True)


def worker(has: Has, s: State, number: int, at: Wk) -> Iterator[Move]:
    """One worker with a message; when it dies the message is visible again."""
    name = f"worker {number}"

    def to(position: Wk, **facts: int) -> State:
        workers = list(s.workers)
        workers[number] = position
        return s._replace(workers=(workers[0], workers[1]), **facts)

    if at == Wk.IDLE:
        if s.queue:
            yield Move(to(Wk.CLAIM, queue=s.queue - 1), f"{name} receives it")
        return
    back = min(s.queue + 1, COPIES)
    freed = {"running": 0} if s.running == number + 1 else {}
    yield Move(to(Wk.IDLE, queue=back, **freed), f"{name} DIES", fault=True)
    match at:
        case Wk.CLAIM:
            yield from claims(s, number, to)
        case Wk.WORK:
            facts = {"running": 0, "said": 1 if has("due on record") else 0}
            if s.waits < WAITS:
                waits = to(Wk.DELETE, **facts, far=1, waits=s.waits + 1)
                yield Move(waits, f"{name} records the wait", fault=True)
            yield Move(to(Wk.DELETE, running=0, over=1), f"{name} SUCCEEDS")
        case Wk.DELETE:
            yield Move(to(Wk.IDLE), f"{name} deletes the message")


def claims(s: State, number: int, move: Callable[..., State]) -> Iterator[Move]:
    """Claim the chunk, or be refused."""
    name = f"worker {number}"
    if s.over:
        yield Move(move(Wk.DELETE), f"{name} meets an ended chunk")
    elif s.far:
        yield Move(move(Wk.DELETE), f"{name} comes early")
    elif s.running:
        kept = min(s.queue + 1, COPIES)
        yield Move(move(Wk.IDLE, queue=kept), f"{name} is refused")
    else:
        yield Move(move(Wk.WORK, running=number + 1), f"{name} claims")


def reconciler(has: Has, s: State) -> Iterator[Move]:
    """Record the redispatch, then send; late, or never, if it dies in between."""
    if s.unsent:
        sent = min(s.queue + 1, COPIES)
        yield Move(s._replace(unsent=0, queue=sent), "reconciler sends it")
        yield Move(s._replace(unsent=0), "reconciler DIES", fault=True)
    elif not (s.over or s.running or s.far) and s.said:
        said = 1 if has("the next one on record") else 0
        yield Move(s._replace(unsent=1, said=said), "reconciler records a redispatch")


def ended(s: State) -> bool:
    return bool(s.over)


WAITS_LONG = Theme("long waits", State(said=1), moves, ended)
