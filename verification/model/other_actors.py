"""Model everything but the workers: time, SQS, submitter, operator, reconciler."""

from __future__ import annotations

from collections.abc import Iterator

from verification.model.cancels import cancel, deadline, sweep
from verification.model.provider import execute_in_flight
from verification.model.settlements import finalized, wrong_reopen
from verification.model.state import (
    ENDED,
    HAS_ABSENT,
    HAS_OPEN,
    IDLE,
    JOB_ENDED,
    OPEN,
    Chunk,
    Config,
    Direction,
    Job,
    Js,
    St,
    Step,
    queued,
    release_expired,
    sent,
)


def chunk_steps(cfg: Config, number: int, c: Chunk, job: Job) -> Iterator[Step]:
    """Yield the steps that change one chunk, or the join."""
    for step in chunk_changes(cfg, number, c, job):
        label, chunk, *more = step
        facts = dict(zip(("job", "fault", "broken"), more, strict=False))
        yield Step(
            f"{label} chunk {number}",
            IDLE,
            chunk,
            facts.get("job") or job,
            bool(facts.get("fault")),
            str(facts.get("broken", "")),
        )


def chunk_changes(cfg: Config, number: int, c: Chunk, job: Job) -> Iterator[tuple]:
    if c.st == St.RUNNING and c.lease:
        yield "time: the lease expires of", c._replace(lease=0)
    for gen in range(1, cfg.gens + 1):
        yield from messages(cfg, c, gen)
    if number < cfg.chunks:
        yield from submit(cfg, number, c, job)
        yield from sweep(cfg, c, job)
        yield from reopen(cfg, number, c, job)
        yield from execute_in_flight(cfg, c)
    if job.st not in JOB_ENDED:
        yield from repair(cfg, number, c, job)


def messages(cfg: Config, c: Chunk, gen: int) -> Iterator[tuple]:
    number = c.queue[gen - 1]
    if number % 3:
        if cfg.loss:
            yield "SQS loses the message of", queued(c, gen, number - 1), None, True
        if cfg.dead_letter_queue and number < 3:
            dead = queued(c, gen, number + 2)
            yield "SQS dead-letters the message of", dead
        if cfg.duplicates and number % 3 < 2:
            copied = queued(c, gen, number + 1)
            yield "SQS duplicates the message of", copied, None, True
    if number >= 3 and cfg.has("empty dead-letter queue"):
        rest = queued(c, gen, number - 3)
        has_ended = c.gen > gen or c.st in ENDED
        after = rest if has_ended else sent(rest, c.gen)
        yield "reconciler empties the dead-letter queue of", after


def submit(cfg: Config, number: int, c: Chunk, job: Job) -> Iterator[tuple]:
    """Write and send as the submitter, or as the reconciler after its death."""
    by = "submitter" if job.submitter else "reconciler"
    if not job.submitter and not cfg.has("finish submit"):
        return
    # The sweep of a cancel creates the missing chunks. A submitter may not know of it.
    may_write = job.st in {Js.SUBMITTING, Js.CANCELLING}
    may_write = may_write or bool(job.submitter and not job.opened)
    if c.st == St.ABSENT and may_write:
        yield f"{by} writes", c._replace(st=St.PENDING, gen=job.gen)
    if job.opened and job.submitter == number + 1:
        after = job.submitter + 1 if job.submitter < cfg.chunks else 0
        yield "submitter sends", sent(c, 1), job._replace(submitter=after)


def reopen(cfg: Config, number: int, c: Chunk, job: Job) -> Iterator[tuple]:
    """Reopen a chunk as the operator, at any time after the operator read it."""
    bit = 1 << number
    may_send = job.reopener and not job.to_reopen and job.st != Js.REOPENING
    if job.reopener and job.to_reopen & bit:
        after = job._replace(to_reopen=job.to_reopen & ~bit)
        fits = job.st == Js.REOPENING and job.gen == job.reopener
        fits = fits or not cfg.has("job in reopen")
        if c.gen < job.reopener and c.st in {St.DEAD, St.CANCELLED} and fits:
            after = after._replace(tally=job.tally & ~bit, to_send=job.to_send | bit)
            late = job.st in JOB_ENDED or job.gen != job.reopener
            broken = "no chunk of an ended job is reopened" if late else ""
            yield "operator reopens", reopened(c, job.reopener), after, False, broken
        else:
            yield "operator skips", c, after
    elif may_send and job.to_send & bit:
        after = job._replace(to_send=job.to_send & ~bit)
        yield "operator sends", sent(c, job.reopener), finished(after)


def reopened(c: Chunk, gen: int) -> Chunk:
    zero = ("attempts", "cancel", "recoveries", "released", "taken_over")
    facts = dict.fromkeys(zero, 0)
    return c._replace(st=St.PENDING, gen=gen, direction=Direction.NONE, **facts)


def finished(job: Job) -> Job:
    """End the operator after it has sent everything."""
    ended = not (job.to_send or job.to_reopen)
    return job._replace(reopener=0, ended_late=0) if ended else job


def repair(cfg: Config, number: int, c: Chunk, job: Job) -> Iterator[tuple]:
    """Model the reconciler: dispatch waiting chunks, release expired leases."""
    waits = c.st in OPEN and not c.queue[c.gen - 1] % 3
    has_direction = c.direction or (c.cancel == 2 and cfg.has("compensation in repair"))
    may_repair = job.st in {Js.RUNNING, Js.FINALIZING} or (
        job.st == Js.CANCELLING and has_direction
    )
    may_repair = may_repair and (number == cfg.chunks) == (job.st == Js.FINALIZING)
    if waits and may_repair and cfg.has("dispatch again"):
        yield "reconciler dispatches", sent(c, c.gen)
    if c.st != St.RUNNING:
        return
    if not c.observed and not c.lease:
        yield "reconciler observes no renewal of", c._replace(observed=1)
    unchanged = c.observed == 1 or (c.observed and not cfg.has("renewal in give back"))
    if unchanged and may_repair and cfg.has("give back"):
        back, broken = release_expired(cfg, c)
        broken = "an owner that renews keeps its claim" if c.observed == 2 else broken
        yield "reconciler gives back", sent(back, c.gen), None, False, broken


def job_steps(cfg: Config, job: Job, join: Chunk, snapshot: int) -> Iterator[Step]:
    """Yield the steps that change the job, or its join."""
    for label, after, *more in job_changes(cfg, job, join, snapshot):
        new_join = more[0] if more and more[0] else join
        fault = len(more) > 1 and bool(more[1])
        broken = str(more[2]) if len(more) > 2 else ""
        yield Step(label, IDLE, new_join, after, fault, broken)


def job_changes(cfg: Config, job: Job, join: Chunk, snapshot: int) -> Iterator[tuple]:
    all_ended = not snapshot & HAS_OPEN or not cfg.has("snapshot")
    to = job._replace
    if job.submitter:
        yield "submitter DIES", to(submitter=0), None, True
    may_submit = job.submitter or cfg.has("finish submit")
    if job.st == Js.SUBMITTING and not snapshot & HAS_ABSENT and may_submit:
        yield "job opens", to(st=Js.RUNNING, opened=1)
    if job.st == Js.RUNNING and all_ended and cfg.has("finish"):
        new, after = finalized(join, job, job.gen)
        yield "reconciler FINALIZES", after, new, False, wrong_reopen(job)
    yield from cancel(cfg, job, snapshot, all_ended=all_ended)
    yield from deadline(cfg, job)
    yield from start_reopening(cfg, job, snapshot)


#: What each value of `Job.deadline` adds to the label of a reopening.
LABELS = ("", " with a deadline", "", " with the deadline that has passed")


def deadlines(cfg: Config, job: Job) -> tuple[int, ...]:
    """Return the deadlines of a reopened job; a deadline that has passed is removed."""
    if job.deadline <= 1:
        return (job.deadline,)
    return (0, 1) if cfg.has("passed deadline is removed") else (3,)


def start_reopening(cfg: Config, job: Job, snapshot: int) -> Iterator[tuple]:
    """Start a redrive or a retry of the job: its generation rises."""
    to, everything = job._replace, (1 << cfg.chunks) - 1
    if job.reopener:
        dead = to(reopener=0, to_reopen=0, to_send=0, ended_late=0)
        yield "operator of the reopening DIES", dead, None, True
    elif job.st in {Js.PARTIAL, Js.CANCELLED} and job.gen < cfg.gens:
        state = Js.REOPENING if cfg.has("REOPENING") else Js.RUNNING
        gen = job.gen + 1
        for deadline in deadlines(cfg, job):
            after = to(st=state, gen=gen, reopener=gen, to_reopen=everything, to_send=0)
            after = after._replace(deadline=deadline, compensates=0)
            yield "operator REOPENS" + LABELS[deadline], after, None, True
    if job.st == Js.REOPENING:
        opened = Js.RUNNING if job.opened else Js.SUBMITTING
        if job.reopener == job.gen and not job.to_reopen:
            yield "operator ends the reopening", finished(to(st=opened))
        if cfg.has("finish reopening"):
            after = to(st=opened, ended_late=int(job.reopener > 0))
            yield "reconciler ends the reopening", after
