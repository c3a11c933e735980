"""Model the notifications of a job's end: an outbox, and the workers that empty it.

Two workers notify, at any speed. A generation of the job is reduced to its ends: by
itself, or cancelled by its deadline, which has a notification of its own.
"""

from __future__ import annotations

from collections.abc import Iterator

from verification.model.notification_state import (
    GENS,
    TRIES,
    N,
    Notice,
    NotifierState,
    Pc,
    State,
    put,
    with_row,
)
from verification.model.state import Js
from verification.model.theme import Has, Move, Theme

ENDED = {Js.PARTIAL, Js.CANCELLED}


def moves(has: Has, s: State) -> Iterator[Move]:
    yield from job(has, s)
    yield from around(has, s)
    for me, teller in enumerate(s.tellers):
        for move in STEPS[teller.pc](has, s, me, teller):
            yield move._replace(label=f"worker {me} {move.label}")
        if teller.pc:
            yield Move(put(s, me, NotifierState()), f"worker {me} DIES", fault=True)


def job(has: Has, s: State) -> Iterator[Move]:
    """Model the job's ends, each with its notification in one write, and reopening."""
    end = 2 * s.gen - 1
    if s.st == Js.RUNNING:
        yield from ends(has, s, Js.PARTIAL, end, "job ends")
        if s.timed:
            deadline = "reconciler EXPIRES"
            yield from ends(has, s, Js.CANCELLING, end - 1, deadline)
    if s.st == Js.CANCELLING:
        yield from ends(has, s, Js.CANCELLED, end, "job is CANCELLED")
    if s.st in ENDED and s.gen < GENS:
        marked = 1 if has("mark in reopen") else s.found
        after = s._replace(st=Js.RUNNING, gen=s.gen + 1, found=marked, timed=0)
        yield Move(after, "operator RESUMES", fault=True, broken=wrong_unfound(after))


def ends(has: Has, s: State, st: Js, row: int, label: str) -> Iterator[Move]:
    moved = s._replace(st=st, owed=s.owed | 1 << row)
    if st in ENDED and not has("found until told"):
        moved = moved._replace(found=0)
    told = with_row(moved, row, Notice(N.PENDING))
    if has("notice with its cause"):
        yield Move(told, label)
    else:
        yield Move(moved, f"{label}; its finisher DIES", fault=True)
        yield Move(told, label)


def wrong_unfound(s: State) -> str:
    """Return what is wrong with a job that reconcilers do not find."""
    lost = s.st not in ENDED and not s.found
    return "a job that goes on is found" if lost else ""


def around(has: Has, s: State) -> Iterator[Move]:
    """Time, SQS, and the reconciler."""
    for at, row in enumerate(s.rows):
        if row.st == N.PENDING and not row.due:
            late = with_row(s, at, row._replace(due=1))
            yield Move(late, f"time: notice {at} is due again")
    due = any(row.st == N.PENDING and row.due for row in s.rows)
    asks = s.found and due and not s.message and s.st != Js.RUNNING
    if asks and has("reconciler hands out"):
        yield Move(s._replace(message=1), "reconciler sends a message to tell")
    if s.message:
        yield Move(s._replace(message=0), "SQS loses the message", fault=True)
    pending = any(row.st == N.PENDING for row in s.rows)
    if s.found and s.st in ENDED and not pending:
        yield Move(s._replace(found=0), "reconciler lets the job go")


def start_fan_out(has: Has, s: State, me: int, t: NotifierState) -> Iterator[Move]:
    """Claim a due notification; without one, check whether the job may be closed.

    A reopened job has no notification before its next end.
    """
    if s.message and s.st != Js.RUNNING:
        for at in pending_rows(s):
            yield from takes(has, s, me, at)
    if s.message and (s.st not in ENDED or not pending_rows(s)):
        after = s._replace(message=0)
        if s.st in ENDED:
            after = put(after, me, NotifierState(Pc.CLOSE, s.gen))
        yield Move(after, "has nothing to tell")


def takes(has: Has, s: State, me: int, at: int) -> Iterator[Move]:
    row = s.rows[at]
    if not row.due and has("due in take"):
        return
    taken = row._replace(due=0, tries=min(row.tries, TRIES) + 1)
    spent = taken.tries > TRIES and has("tries are bounded")
    mine = NotifierState(Pc.PUT_OFF if spent else Pc.CALL, at, taken.tries)
    broken = "" if row.due else "nobody takes what another one has"
    if taken.tries > TRIES and not spent:
        broken = "a hook is called so often and no more"
    after = put(with_row(s, at, taken), me, mine)
    yield Move(after, f"takes notice {at}", broken=broken)


def pending_rows(s: State) -> list[int]:
    return [at for at, row in enumerate(s.rows) if row.st == N.PENDING]


def calls(has: Has, s: State, me: int, t: NotifierState) -> Iterator[Move]:
    heard = with_row(s, t.row, s.rows[t.row]._replace(heard=1))
    yield Move(put(heard, me, t._replace(pc=Pc.TELL)), "calls the hook")
    if not has("told after the call"):
        early = s.rows[t.row]._replace(st=N.TOLD)
        after = put(with_row(s, t.row, early), me, t)
        yield Move(after, "says TOLD first", broken=untold(early))
    yield Move(put(s, me, t._replace(pc=Pc.PUT_OFF)), "sees the hook fail", fault=True)


def untold(row: Notice) -> str:
    wrong = row.st == N.TOLD and not row.heard
    return "what is TOLD was heard" if wrong else ""


def tells(has: Has, s: State, me: int, t: NotifierState) -> Iterator[Move]:
    """PENDING -> DELIVERED, by any process: the hook was called."""
    row = s.rows[t.row]
    after = row._replace(st=N.TOLD) if row.st == N.PENDING else row
    yield Move(put(with_row(s, t.row, after), me, NotifierState()), "writes TOLD")


def puts_off(has: Has, s: State, me: int, t: NotifierState) -> Iterator[Move]:
    """Retry later or give up, only if no other process has claimed it since."""
    row, rest = s.rows[t.row], put(s, me, NotifierState())
    ours = row.st == N.PENDING and row.tries == t.tries
    if not ours and has("ours in give-up"):
        yield Move(rest, "is too late to put it off")
        return
    broken = "" if ours else "nobody gives up what another one has"
    if t.tries >= TRIES:
        gone = with_row(rest, t.row, row._replace(st=N.ABANDONED))
        yield Move(gone, "gives it up", broken=broken)
    else:
        later = with_row(rest, t.row, row._replace(due=0))
        yield Move(later, "puts it off", broken=broken)


def closes(has: Has, s: State, me: int, t: NotifierState) -> Iterator[Move]:
    """Close the job as it was read; it may have been reopened since."""
    rest = put(s, me, NotifierState())
    if (s.st in ENDED and s.gen == t.row) or not has("life in close"):
        gone = rest._replace(found=0)
        yield Move(gone, "lets the job go", broken=wrong_unfound(gone))
    else:
        yield Move(rest, "finds that the job goes on")


def ended(s: State) -> bool:
    """Return whether the job has ended and each notification is settled."""
    open_ = [at for at in range(len(s.rows)) if s.owed >> at & 1 and not over(s, at)]
    idle = not any(t.pc for t in s.tellers)
    return s.st in ENDED and not open_ and idle and not s.message and not s.found


def over(s: State, at: int) -> bool:
    return s.rows[at].st in {N.TOLD, N.ABANDONED}


STEPS = {
    Pc.IDLE: start_fan_out,
    Pc.CALL: calls,
    Pc.TELL: tells,
    Pc.PUT_OFF: puts_off,
    Pc.CLOSE: closes,
}
NOTICES = Theme("notices", State(), moves, ended)
#: One generation, which may end by its deadline.
TIMED = Theme("notices, deadline", State(gen=GENS, timed=1), moves, ended)
TOLD_BY_ONE = TIMED._replace(
    start_fan_out=TIMED.start_fan_out._replace(tellers=(NotifierState(),))
)
