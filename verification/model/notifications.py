"""Model the notifications of a job's end: an outbox, and the workers that empty it.

Two workers deliver, at any speed. The model reduces a generation of the job to its
ends: by itself, or cancelled by its deadline. The deadline has its own notification.
"""

from __future__ import annotations

from collections.abc import Iterator

from verification.model.notification_state import (
    ATTEMPTS,
    GENS,
    Notification,
    Notifier,
    Pc,
    St,
    State,
    put,
    with_row,
)
from verification.model.small_model import Has, Move, SmallModel
from verification.model.state import Js

ENDED = {Js.PARTIAL, Js.CANCELLED}


def moves(has: Has, s: State) -> Iterator[Move]:
    yield from job_steps(has, s)
    yield from other_steps(has, s)
    for me, notifier in enumerate(s.notifiers):
        for move in STEPS[notifier.pc](has, s, me, notifier):
            yield move._replace(label=f"worker {me} {move.label}")
        if notifier.pc:
            yield Move(put(s, me, Notifier()), f"worker {me} DIES", fault=True)


def job_steps(has: Has, s: State) -> Iterator[Move]:
    """Model the job's ends, each with its notification in one write, and reopening."""
    end = 2 * s.gen - 1
    if s.st == Js.RUNNING:
        yield from end_job(has, s, Js.PARTIAL, end, "job ends")
        if s.timed:
            deadline = "reconciler EXPIRES"
            yield from end_job(has, s, Js.CANCELLING, end - 1, deadline)
    if s.st == Js.CANCELLING:
        yield from end_job(has, s, Js.CANCELLED, end, "job is CANCELLED")
    if s.st in ENDED and s.gen < GENS:
        marked = 1 if has("active in reopen") else s.active
        after = s._replace(st=Js.RUNNING, gen=s.gen + 1, active=marked, timed=0)
        yield Move(after, "operator REOPENS", fault=True, broken=wrong_inactive(after))


def end_job(has: Has, s: State, st: Js, row: int, label: str) -> Iterator[Move]:
    job_ended = s._replace(st=st, required=s.required | 1 << row)
    if st in ENDED and not has("active until delivered"):
        job_ended = job_ended._replace(active=0)
    recorded = with_row(job_ended, row, Notification(St.PENDING))
    if has("notification with its cause"):
        yield Move(recorded, label)
    else:
        yield Move(job_ended, f"{label}; its worker DIES", fault=True)
        yield Move(recorded, label)


def wrong_inactive(s: State) -> str:
    """Return what is wrong with a job that is not in the active index."""
    inactive = s.st not in ENDED and not s.active
    return "an open job is in the active index" if inactive else ""


def other_steps(has: Has, s: State) -> Iterator[Move]:
    """Yield the steps of time, SQS and the reconciler."""
    for at, row in enumerate(s.rows):
        if row.st == St.PENDING and not row.due:
            due_again = with_row(s, at, row._replace(due=1))
            yield Move(due_again, f"time: notification {at} is due again")
    due = any(row.st == St.PENDING and row.due for row in s.rows)
    dispatches = s.active and due and not s.message and s.st != Js.RUNNING
    if dispatches and has("reconciler dispatches"):
        yield Move(s._replace(message=1), "reconciler sends a message")
    if s.message:
        yield Move(s._replace(message=0), "SQS loses the message", fault=True)
    pending = any(row.st == St.PENDING for row in s.rows)
    if s.active and s.st in ENDED and not pending:
        yield Move(s._replace(active=0), "reconciler removes the job from the index")


def idle(has: Has, s: State, me: int, n: Notifier) -> Iterator[Move]:
    """Claim a due notification; without one, check whether the job may be closed.

    A reopened job has no notification before its next end.
    """
    if s.message and s.st != Js.RUNNING:
        for at in pending_rows(s):
            yield from claim_row(has, s, me, at)
    if s.message and (s.st not in ENDED or not pending_rows(s)):
        after = s._replace(message=0)
        if s.st in ENDED:
            after = put(after, me, Notifier(Pc.CLOSE, s.gen))
        yield Move(after, "finds no notification")


def claim_row(has: Has, s: State, me: int, at: int) -> Iterator[Move]:
    row = s.rows[at]
    if not row.due and has("due in claim"):
        return
    claimed = row._replace(due=0, attempts=min(row.attempts, ATTEMPTS) + 1)
    spent = claimed.attempts > ATTEMPTS and has("limit of attempts")
    claim = Notifier(Pc.RETRY if spent else Pc.CALL, at, claimed.attempts)
    broken = "" if row.due else "no claimed row is claimed again"
    if claimed.attempts > ATTEMPTS and not spent:
        broken = "calls of the hook are bounded"
    after = put(with_row(s, at, claimed), me, claim)
    yield Move(after, f"claims notification {at}", broken=broken)


def pending_rows(s: State) -> list[int]:
    return [at for at, row in enumerate(s.rows) if row.st == St.PENDING]


def call_hook(has: Has, s: State, me: int, n: Notifier) -> Iterator[Move]:
    received = with_row(s, n.row, s.rows[n.row]._replace(received=1))
    yield Move(put(received, me, n._replace(pc=Pc.MARK_DELIVERED)), "calls the hook")
    if not has("delivered after the call"):
        marked = s.rows[n.row]._replace(st=St.DELIVERED)
        after = put(with_row(s, n.row, marked), me, n)
        yield Move(after, "writes DELIVERED first", broken=wrong_delivered(marked))
    failed = put(s, me, n._replace(pc=Pc.RETRY))
    yield Move(failed, "receives an error of the hook", fault=True)


def wrong_delivered(row: Notification) -> str:
    wrong = row.st == St.DELIVERED and not row.received
    return "a DELIVERED row was received" if wrong else ""


def mark_delivered(has: Has, s: State, me: int, n: Notifier) -> Iterator[Move]:
    """PENDING -> DELIVERED, by any process: the hook was called."""
    row = s.rows[n.row]
    after = row._replace(st=St.DELIVERED) if row.st == St.PENDING else row
    yield Move(put(with_row(s, n.row, after), me, Notifier()), "writes DELIVERED")


def retry_later(has: Has, s: State, me: int, n: Notifier) -> Iterator[Move]:
    """Retry later or abandon it, unless another worker has claimed it since."""
    row, after = s.rows[n.row], put(s, me, Notifier())
    owned = row.st == St.PENDING and row.attempts == n.attempts
    if not owned and has("owner in abandon"):
        yield Move(after, "is refused the retry")
        return
    broken = "" if owned else "only the owner abandons a row"
    if n.attempts >= ATTEMPTS:
        abandoned = with_row(after, n.row, row._replace(st=St.ABANDONED))
        yield Move(abandoned, "abandons it", broken=broken)
    else:
        later = with_row(after, n.row, row._replace(due=0))
        yield Move(later, "schedules a retry", broken=broken)


def close_job(has: Has, s: State, me: int, n: Notifier) -> Iterator[Move]:
    """Close the job as it was read; it may have been reopened since."""
    after = put(s, me, Notifier())
    if (s.st in ENDED and s.gen == n.row) or not has("generation in close"):
        closed = after._replace(active=0)
        broken = wrong_inactive(closed)
        yield Move(closed, "removes the job from the index", broken=broken)
    else:
        yield Move(after, "finds the job open")


def ended(s: State) -> bool:
    """Return whether the job and each notification have ended."""
    open_ = [
        at for at in range(len(s.rows)) if s.required >> at & 1 and not is_over(s, at)
    ]
    all_idle = not any(n.pc for n in s.notifiers)
    return s.st in ENDED and not open_ and all_idle and not s.message and not s.active


def is_over(s: State, at: int) -> bool:
    return s.rows[at].st in {St.DELIVERED, St.ABANDONED}


STEPS = {
    Pc.IDLE: idle,
    Pc.CALL: call_hook,
    Pc.MARK_DELIVERED: mark_delivered,
    Pc.RETRY: retry_later,
    Pc.CLOSE: close_job,
}
NOTIFICATIONS = SmallModel("notifications", State(), moves, ended)
#: One generation, which may end by its deadline.
TIMED = SmallModel("notifications, deadline", State(gen=GENS, timed=1), moves, ended)
ONE_NOTIFIER = TIMED._replace(initial=TIMED.initial._replace(notifiers=(Notifier(),)))
