"""A job's notices, and the workers that deliver them."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from verification.model.state import Js

GENS, TRIES = 2, 2


class N(IntEnum):
    """The state of a notification's row; NONE: there is no row."""

    NONE, PENDING, TOLD, ABANDONED = range(4)


class Notice(NamedTuple):
    """A notice of one life of the job.

    Attributes:
        due: Whether it may be taken: nobody has it, or whoever had it took too long.
        tries: How often it was taken; with it the claim is known again.
        heard: Whether the hook was called at least once, and returned.
    """

    st: N = N.NONE
    due: int = 1
    tries: int = 0
    heard: int = 0


class Pc(IntEnum):
    """The position of a notifying process."""

    IDLE, CALL, TELL, PUT_OFF, CLOSE = range(5)


class NotifierState(NamedTuple):
    """A worker: its notification and attempt, or the generation that it closes."""

    pc: Pc = Pc.IDLE
    row: int = 0
    tries: int = 0


class State(NamedTuple):
    """A job, whether reconcilers find it, its notices, and those who tell.

    Attributes:
        rows: For each life: the notice of its deadline, and of its end.
        owed: Which of them somebody is to be told of, as bits.
        message: Whether a message asks for somebody to tell.
        timed: Whether the job has a deadline; one that has passed goes at a resume.
    """

    st: Js = Js.RUNNING
    gen: int = 1
    found: int = 1
    owed: int = 0
    rows: tuple[Notice, ...] = (Notice(),) * (2 * GENS)
    tellers: tuple[NotifierState, ...] = (NotifierState(), NotifierState())
    message: int = 0
    timed: int = 0


def put(s: State, me: int, teller: NotifierState) -> State:
    return s._replace(tellers=(*s.tellers[:me], teller, *s.tellers[me + 1 :]))


def with_row(s: State, at: int, row: Notice) -> State:
    return s._replace(rows=(*s.rows[:at], row, *s.rows[at + 1 :]))
