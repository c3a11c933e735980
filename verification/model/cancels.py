"""Model cancels: by the operator or by the deadline, with the sweep and its end."""

from __future__ import annotations

from collections.abc import Iterator

from verification.model.provider import leftover_effects
from verification.model.state import (
    CANCELLABLE,
    ENDED,
    HAS_ABSENT,
    HAS_OPEN,
    OPEN,
    Chunk,
    Config,
    Job,
    Js,
    St,
    sent,
    without_owner,
)


def sweep(cfg: Config, c: Chunk, job: Job) -> Iterator[tuple]:
    """Sweep at any time after the sweeper read that the job is CANCELLING."""
    if not job.sweeper or c.st in ENDED or c.st == St.ABSENT:
        return
    if c.direction and cfg.has("direction in cancel"):
        return
    if c.gen > job.sweeper and cfg.has("generation in sweep"):
        return
    cancelling = job.st in {Js.CANCELLING, Js.CANCELLED} or job.gen > c.gen
    broken = "" if cancelling else "no later generation is cancelled"
    if c.direction:
        broken = "no compensation is interrupted"
    compensates = bool(job.compensates)
    if is_cancelled_at_once(cfg, c, compensates=compensates):
        broken = broken or leftover_effects(c, compensates=compensates)
        yield "sweep cancels", without_owner(c, St.CANCELLED), None, False, broken
    elif not c.cancel:
        marked = c._replace(cancel=1 + compensates)
        marked = marked if c.st == St.RUNNING else sent(marked, c.gen)
        yield "sweep marks", marked, None, False, broken


def is_cancelled_at_once(cfg: Config, c: Chunk, *, compensates: bool) -> bool:
    """Return whether an unclaimed chunk is cancelled at once, and not dispatched."""
    if c.st in OPEN:
        return not (compensates and c.started and cfg.has("started in sweep"))
    compensated = compensates and cfg.has("expired leases compensate")
    return c.st == St.RUNNING and c.observed == 1 and not compensated


def cancel(cfg: Config, job: Job, snapshot: int, *, all_ended: bool) -> Iterator[tuple]:
    to = job._replace
    if cfg.cancel and job.st in CANCELLABLE:
        yield "operator CANCELS", to(st=Js.CANCELLING), None, True
        if cfg.compensate:
            compensating = to(st=Js.CANCELLING, compensates=1)
            yield "operator CANCELS AND COMPENSATES", compensating, None, True
    if job.st == Js.CANCELLING and job.sweeper != job.gen:
        yield "sweeper reads CANCELLING", to(sweeper=job.gen)
    if job.sweeper:
        yield "sweeper ends", to(sweeper=0)
    is_whole = not snapshot & HAS_ABSENT or not cfg.has("all chunks in cancelled")
    if job.st == Js.CANCELLING and all_ended and is_whole:
        broken = "" if not snapshot & HAS_OPEN else "a job ends after its chunks"
        yield "job is CANCELLED", to(st=Js.CANCELLED), None, False, broken


def deadline(cfg: Config, job: Job) -> Iterator[tuple]:
    """Model the clock, and a reconciler that acts at any time after its read."""
    to = job._replace
    if job.deadline == 1:
        yield "time: the deadline passes", to(deadline=2), None, True
    if job.deadline > 1 and job.st in CANCELLABLE and not job.expirer:
        yield "reconciler reads that the deadline has passed", to(expirer=job.gen)
    if not job.expirer:
        return
    fits = job.st in CANCELLABLE and job.gen == job.expirer and job.deadline > 1
    if not fits and cfg.has("status in expire"):
        yield "reconciler is too late to expire", to(expirer=0)
        return
    early = job.gen != job.expirer or job.deadline in {0, 1, 3}
    broken = "a passed deadline cancels no later generation" if early else ""
    if job.st not in CANCELLABLE:
        broken = "no deadline cancels an ending job"
    expired = to(st=Js.CANCELLING, compensates=int(cfg.compensate), expirer=0)
    yield "reconciler EXPIRES", expired, None, False, broken
