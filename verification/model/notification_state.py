"""Define a job's notifications, and the workers that deliver them."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from verification.model.state import Js

GENS, ATTEMPTS = 2, 2


class St(IntEnum):
    """The state of a notification's row; NONE: there is no row."""

    NONE, PENDING, DELIVERED, ABANDONED = range(4)


class Notification(NamedTuple):
    """A notification of one generation of the job.

    Attributes:
        due: Whether a worker may claim it: no claim is current.
        attempts: The number of its claims; it identifies a claim.
        received: Whether the hook was called at least once, and returned.
    """

    st: St = St.NONE
    due: int = 1
    attempts: int = 0
    received: int = 0


class Pc(IntEnum):
    """The position of a worker."""

    IDLE, CALL, MARK_DELIVERED, RETRY, CLOSE = range(5)


class Notifier(NamedTuple):
    """A worker: its notification and attempt, or the generation that it closes."""

    pc: Pc = Pc.IDLE
    row: int = 0
    attempts: int = 0


class State(NamedTuple):
    """A job, its notifications, and the workers that deliver them.

    Attributes:
        active: Whether the job is in the active index, where reconcilers find it.
        required: Which rows must be delivered or abandoned, as bits.
        rows: For each generation: the notifications of its deadline and of its end.
        message: Whether a message asks a worker to deliver.
        timed: Whether the job has a deadline; a reopening removes it.
    """

    st: Js = Js.RUNNING
    gen: int = 1
    active: int = 1
    required: int = 0
    rows: tuple[Notification, ...] = (Notification(),) * (2 * GENS)
    notifiers: tuple[Notifier, ...] = (Notifier(), Notifier())
    message: int = 0
    timed: int = 0


def put(s: State, me: int, notifier: Notifier) -> State:
    return s._replace(notifiers=(*s.notifiers[:me], notifier, *s.notifiers[me + 1 :]))


def with_row(s: State, at: int, row: Notification) -> State:
    return s._replace(rows=(*s.rows[:at], row, *s.rows[at + 1 :]))
