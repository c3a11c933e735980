"""Model the end of a work item: settlement, tally, finish, message."""

from __future__ import annotations

from collections.abc import Iterator

from verification.model.provider import leftover_effects
from verification.model.state import (
    ENDED,
    SEES_NO_RESULT,
    SEES_OPEN,
    Chunk,
    Job,
    Js,
    Pc,
    St,
    Step,
    deleted,
    ended,
    sent,
)
from verification.model.turn import At, is_compensation_requested

#: The `fresh` value of a worker that counted its chunk before it settled it: an
#: ablation.
COUNTED_EARLY = 2


def succeed(at: At) -> Iterator[Step]:
    c, bit = at.c, 1 << at.w.gen
    if not at.cfg.has("settle before tally") and at.w.fresh != COUNTED_EARLY:
        yield at.to("counts before it settles", pc=Pc.TALLY, fresh=COUNTED_EARLY)
        return
    if not at.held:
        yield at.rest("is refused the end")
        return
    broken = not_ours(at)
    if c.results & bit:
        broken = "one completion a generation"
    job = at.j
    if at.is_join:
        job = join_end(at, failed=False)
    chunk = ended(c, St.SUCCEEDED)._replace(results=c.results | bit)
    yield at.to("SUCCEEDS", chunk, pc=Pc.TALLY, job=job, broken=broken)


def not_ours(at: At) -> str:
    if at.c.st in ENDED:
        return "an ended chunk stays ended"
    return "" if at.c.own == at.me else "only the holder settles"


def join_end(at: At, *, failed: bool) -> Job:
    whole = not failed and not at.census & SEES_NO_RESULT
    return at.j._replace(st=Js.SUCCEEDED if whole else Js.PARTIAL)


def settled(at: At, status: St, label: str, broken: str = "") -> Iterator[Step]:
    if not at.held:
        yield at.rest("is refused the end")
        return
    job = join_end(at, failed=True) if at.is_join else at.j
    chunk = ended(at.c, status)
    chunk = chunk._replace(cursor=resume_at(chunk))
    broken = broken or not_ours(at)
    yield at.to(label, chunk, pc=Pc.TALLY, job=job, broken=broken)


def resume_at(c: Chunk) -> int:
    undone = (i for i, row in enumerate(c.effects) if row.undone == c.gen)
    return min(undone, default=c.cursor)


def bury(at: At) -> Iterator[Step]:
    yield from settled(at, St.DEAD, "BURIES")


def stop(at: At) -> Iterator[Step]:
    broken = leftover_effects(at.c, undoes=is_compensation_requested(at))
    yield from settled(at, St.CANCELLED, "settles CANCELLED", broken)


def park(at: At) -> Iterator[Step]:
    if at.held:
        chunk = at.c._replace(st=St.WAITING, own=0, alive=0, mark=0)
        yield at.rest("parks", chunk, broken=not_ours(at))
    else:
        yield at.rest("is refused the parking")


def release(at: At) -> Iterator[Step]:
    if not at.held:
        yield at.rest("is refused the release")
        return
    c, given = at.c, not at.c.released
    chunk = c._replace(st=St.WAITING, own=0, alive=0, mark=0, released=1)
    broken = ""
    if at.w.winding and at.cfg.has("release keeps a spent attempt"):
        chunk = chunk._replace(recoveries=c.recoveries - given)
    else:
        chunk = chunk._replace(attempts=c.attempts - given)
        robbed = at.w.winding and given
        broken = "no attempt is handed back that was not taken" if robbed else ""
    yield at.rest("hands back", chunk, broken=broken)


def tally(at: At) -> Iterator[Step]:
    living = at.c.gen == at.w.gen and at.c.st not in ENDED
    broken = "only what has ended is counted" if living else ""
    if at.w.fresh == COUNTED_EARLY and living:
        yield at.to("counts", pc=Pc.COMPLETE, job=counted(at), broken=broken)
        return
    if at.is_join:
        yield at.to("has no tally", pc=Pc.DELETE, stage=0, fresh=0, winding=0, epoch=0)
        return
    facts = {"stage": at.number, "fresh": 0, "winding": 0, "epoch": 0}
    job = counted(at)
    full = job.tally == (1 << at.cfg.chunks) - 1
    pc = Pc.LOOK if full else Pc.DELETE
    yield at.to("counts", pc=pc, job=job, broken=broken, **facts)


def counted(at: At) -> Job:
    return at.j._replace(tally=at.j.tally | 1 << at.number)


def take_snapshot(at: At) -> Iterator[Step]:
    """`start_finalizing`: read the job, then all chunks; the write follows later."""
    whole = not at.census & SEES_OPEN or not at.cfg.has("census")
    if at.j.st == Js.RUNNING and whole:
        facts = {"target": at.cfg.chunks, "epoch": at.j.gen}
        yield at.to("sees that all have ended", pc=Pc.FINALIZE, **facts)
    else:
        yield at.to("sees nothing to finish", pc=Pc.DELETE)


def finalize(at: At) -> Iterator[Step]:
    """Finalize the job; the worker then returns to its own chunk."""
    back = {"pc": Pc.DELETE, "target": at.w.stage, "epoch": 0}
    fits = at.j.st == Js.RUNNING and at.j.gen == at.w.epoch
    if fits or not at.cfg.has("state in finalize"):
        join, job = finalized(at.c, at.j, at.w.epoch)
        broken = wrong_reopen(at.j) if fits else FOREIGN
        yield at.to("FINALIZES", join, **back, job=job, broken=broken)
    else:
        yield at.to("is too late to finalize", **back)


FOREIGN = "a finisher moves only its own generation"


def wrong_reopen(job: Job) -> str:
    """Return what is wrong if chunks of this generation are not yet reopened."""
    early = job.resumer == job.gen and job.todo and not job.let_run
    return "a finisher waits for the reopening" if early else ""


def finalized(join: Chunk, job: Job, gen: int) -> tuple[Chunk, Job]:
    """RUNNING -> FINALIZING, with a new join, which the finalizer claims."""
    new = Chunk(St.PENDING, gen, results=join.results, queue=join.queue)
    return sent(new, gen), job._replace(st=Js.FINALIZING)


def delete(at: At) -> Iterator[Step]:
    c = at.c
    living = c.gen == at.w.gen and c.st not in ENDED
    chunk = deleted(c, at.w.gen)
    broken = "a living chunk keeps its message" if living and chunk != c else ""
    yield at.rest("deletes the message", chunk, broken=broken)
