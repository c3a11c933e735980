"""Model cancels: by the operator or by the deadline, with the sweep and its end."""

from __future__ import annotations

from collections.abc import Iterator

from verification.model.provider import leftover_effects
from verification.model.state import (
    CANCELLABLE,
    ENDED,
    OPEN,
    SEES_OPEN,
    Chunk,
    Config,
    Job,
    Js,
    St,
    ended,
    sent,
)


def sweep(cfg: Config, c: Chunk, job: Job) -> Iterator[tuple]:
    """A sweep, however long ago it read that the job is CANCELLING."""
    if not job.sweeper or c.st in ENDED or c.st == St.ABSENT:
        return
    if c.way and cfg.has("direction in cancel"):
        return
    if c.gen > job.sweeper and cfg.has("generation in sweep"):
        return
    struck = job.st in {Js.CANCELLING, Js.CANCELLED} or job.gen > c.gen
    broken = "" if struck else "a cancel ends no later life"
    if c.way:
        broken = "no undo is cut off"
    undoes = bool(job.undoes)
    if is_cancelled_at_once(cfg, c, undoes=undoes):
        broken = broken or leftover_effects(c, undoes=undoes)
        yield "sweep cancels", ended(c, St.CANCELLED), None, False, broken
    elif not c.asked:
        asked = c._replace(asked=1 + undoes)
        asked = asked if c.st == St.RUNNING else sent(asked, c.gen)
        yield "sweep asks for", asked, None, False, broken


def is_cancelled_at_once(cfg: Config, c: Chunk, *, undoes: bool) -> bool:
    """Return whether an unclaimed chunk is cancelled at once, and not dispatched."""
    if c.st in OPEN:
        return not (undoes and c.begun and cfg.has("begun in sweep"))
    spared = undoes and cfg.has("dead leases are wound back")
    return c.st == St.RUNNING and c.mark == 1 and not spared


def cancel(cfg: Config, job: Job, census: int, *, whole: bool) -> Iterator[tuple]:
    to = job._replace
    if cfg.cancel and job.st in CANCELLABLE:
        yield "operator CANCELS", to(st=Js.CANCELLING), None, True
        if cfg.undo:
            undoing = to(st=Js.CANCELLING, undoes=1)
            yield "operator CANCELS AND UNDOES", undoing, None, True
    if job.st == Js.CANCELLING and job.sweeper != job.gen:
        yield "sweeper reads CANCELLING", to(sweeper=job.gen)
    if job.sweeper:
        yield "sweeper ends", to(sweeper=0)
    if job.st == Js.CANCELLING and whole:
        broken = "" if not census & SEES_OPEN else "a job ends after its chunks"
        yield "job is CANCELLED", to(st=Js.CANCELLED), None, False, broken


def deadline(cfg: Config, job: Job) -> Iterator[tuple]:
    """Model the clock, and a reconciler that acts at any time after its read."""
    to = job._replace
    if job.late == 1:
        yield "time: the deadline passes", to(late=2), None, True
    if job.late > 1 and job.st in CANCELLABLE and not job.expirer:
        yield "reconciler sees the deadline passed", to(expirer=job.gen)
    if not job.expirer:
        return
    fits = job.st in CANCELLABLE and job.gen == job.expirer and job.late > 1
    if not fits and cfg.has("state in expire"):
        yield "reconciler is too late to expire", to(expirer=0)
        return
    early = job.gen != job.expirer or job.late in {0, 1, 3}
    broken = "a passed deadline ends no later life" if early else ""
    if job.st not in CANCELLABLE:
        broken = "a deadline moves no job that is ending"
    expired = to(st=Js.CANCELLING, undoes=int(cfg.undo), expirer=0)
    yield "reconciler EXPIRES", expired, None, False, broken
