"""Model the end of a work item: settlement, tally, finish, message."""

from __future__ import annotations

from collections.abc import Iterator

from verification.model.provider import leftover_effects
from verification.model.state import (
    ENDED,
    HAS_NO_RESULT,
    HAS_OPEN,
    Chunk,
    Job,
    Js,
    Pc,
    St,
    Step,
    deleted,
    sent,
    without_owner,
)
from verification.model.view import View, is_compensation_requested

#: The `fresh` value of a worker that, in a mutant, counted its chunk too early.
COUNTED_EARLY = 2


def succeed(v: View) -> Iterator[Step]:
    c, bit = v.c, 1 << v.w.gen
    if not v.cfg.has("settle before tally") and v.w.fresh != COUNTED_EARLY:
        yield v.to("counts before it settles", pc=Pc.TALLY, fresh=COUNTED_EARLY)
        return
    if not v.owned:
        yield v.end("is refused the settlement")
        return
    broken = wrong_settlement(v)
    if c.results & bit:
        broken = "one completion a generation"
    job = v.j
    if v.is_join:
        job = join_end(v, failed=False)
    chunk = without_owner(c, St.SUCCEEDED)._replace(results=c.results | bit)
    yield v.to("SUCCEEDS", chunk, pc=Pc.TALLY, job=job, broken=broken)


def wrong_settlement(v: View) -> str:
    if v.c.st in ENDED:
        return "an ended chunk stays ended"
    return "" if v.c.owner == v.me else "only the owner settles"


def join_end(v: View, *, failed: bool) -> Job:
    whole = not failed and not v.snapshot & HAS_NO_RESULT
    return v.j._replace(st=Js.SUCCEEDED if whole else Js.PARTIAL)


def settled(v: View, status: St, label: str, broken: str = "") -> Iterator[Step]:
    if not v.owned:
        yield v.end("is refused the settlement")
        return
    job = join_end(v, failed=True) if v.is_join else v.j
    chunk = without_owner(v.c, status)
    chunk = chunk._replace(cursor=first_compensated(chunk))
    broken = broken or wrong_settlement(v)
    yield v.to(label, chunk, pc=Pc.TALLY, job=job, broken=broken)


def first_compensated(c: Chunk) -> int:
    compensated = (i for i, row in enumerate(c.effects) if row.compensated == c.gen)
    return min(compensated, default=c.cursor)


def dead_letter(v: View) -> Iterator[Step]:
    yield from settled(v, St.DEAD, "DEAD-LETTERS")


def settle_cancelled(v: View) -> Iterator[Step]:
    broken = leftover_effects(v.c, compensates=is_compensation_requested(v))
    yield from settled(v, St.CANCELLED, "settles CANCELLED", broken)


def schedule_retry(v: View) -> Iterator[Step]:
    if v.owned:
        chunk = without_owner(v.c, St.WAITING)
        yield v.end("schedules a retry", chunk, broken=wrong_settlement(v))
    else:
        yield v.end("is refused the retry")


def release(v: View) -> Iterator[Step]:
    if not v.owned:
        yield v.end("is refused the release")
        return
    c, refunded = v.c, not v.c.released
    chunk = without_owner(c, St.WAITING, released=1)
    broken = ""
    if v.w.recovering and v.cfg.has("release keeps a spent attempt"):
        chunk = chunk._replace(recoveries=c.recoveries - refunded)
    else:
        chunk = chunk._replace(attempts=c.attempts - refunded)
        wrong = v.w.recovering and refunded
        broken = "only a counted attempt is refunded" if wrong else ""
    yield v.end("releases", chunk, broken=broken)


def tally(v: View) -> Iterator[Step]:
    open_ = v.c.gen == v.w.gen and v.c.st not in ENDED
    broken = "only ended chunks are counted" if open_ else ""
    if v.w.fresh == COUNTED_EARLY and open_:
        yield v.to("counts", pc=Pc.COMPLETE, job=counted(v), broken=broken)
        return
    if v.is_join:
        yield v.to(
            "has no tally", pc=Pc.DELETE, stage=0, fresh=0, recovering=0, key_gen=0
        )
        return
    facts = {"stage": v.number, "fresh": 0, "recovering": 0, "key_gen": 0}
    job = counted(v)
    full = job.tally == (1 << v.cfg.chunks) - 1
    pc = Pc.SNAPSHOT if full else Pc.DELETE
    yield v.to("counts", pc=pc, job=job, broken=broken, **facts)


def counted(v: View) -> Job:
    return v.j._replace(tally=v.j.tally | 1 << v.number)


def take_snapshot(v: View) -> Iterator[Step]:
    """`start_finalizing`: read the job, then all chunks; the write follows later."""
    whole = not v.snapshot & HAS_OPEN or not v.cfg.has("snapshot")
    if v.j.st == Js.RUNNING and whole:
        facts = {"target": v.cfg.chunks, "key_gen": v.j.gen}
        yield v.to("reads that all chunks have ended", pc=Pc.FINALIZE, **facts)
    else:
        yield v.to("reads that it cannot finalize", pc=Pc.DELETE)


def finalize(v: View) -> Iterator[Step]:
    """Finalize the job; the worker then returns to its own chunk."""
    facts = {"pc": Pc.DELETE, "target": v.w.stage, "key_gen": 0}
    fits = v.j.st == Js.RUNNING and v.j.gen == v.w.key_gen
    if fits or not v.cfg.has("status in finalize"):
        join, job = finalized(v.c, v.j, v.w.key_gen)
        broken = wrong_reopen(v.j) if fits else OTHER_GENERATION
        yield v.to("FINALIZES", join, **facts, job=job, broken=broken)
    else:
        yield v.to("is too late to finalize", **facts)


OTHER_GENERATION = "no other generation is finalized"


def wrong_reopen(job: Job) -> str:
    """Return what is wrong if a job is finalized during its reopening."""
    early = job.reopener == job.gen and job.to_reopen and not job.ended_late
    return "a job is finalized after its reopening" if early else ""


def finalized(join: Chunk, job: Job, gen: int) -> tuple[Chunk, Job]:
    """RUNNING -> FINALIZING, with a new join, which the finalizer claims."""
    new = Chunk(St.PENDING, gen, results=join.results, queue=join.queue)
    return sent(new, gen), job._replace(st=Js.FINALIZING)


def delete(v: View) -> Iterator[Step]:
    c = v.c
    open_ = c.gen == v.w.gen and c.st not in ENDED
    chunk = deleted(c, v.w.gen)
    broken = "an open chunk keeps its message" if open_ and chunk != c else ""
    yield v.end("deletes the message", chunk, broken=broken)
