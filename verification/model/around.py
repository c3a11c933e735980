"""Model everything but the workers: time, SQS, submitter, operator, reconciler."""

from __future__ import annotations

from collections.abc import Iterator

from verification.model.cancels import cancel, deadline, sweep
from verification.model.endings import finalized, wrong_reopen
from verification.model.provider import lands
from verification.model.state import (
    ENDED,
    IDLE,
    JOB_ENDED,
    OPEN,
    SEES_ABSENT,
    SEES_OPEN,
    Chunk,
    Config,
    Job,
    Js,
    St,
    Step,
    Way,
    lease_released,
    queued,
    sent,
)


def around_chunk(cfg: Config, number: int, c: Chunk, job: Job) -> Iterator[Step]:
    """Yield the possible events of one chunk, or of the join."""
    for step in all_around(cfg, number, c, job):
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


def all_around(cfg: Config, number: int, c: Chunk, job: Job) -> Iterator[tuple]:
    if c.st == St.RUNNING and c.alive:
        yield "time: lease runs out on", c._replace(alive=0)
    for gen in range(1, cfg.gens + 1):
        yield from messages(cfg, c, gen)
    if number < cfg.chunks:
        yield from submit(cfg, number, c, job)
        yield from sweep(cfg, c, job)
        yield from resume(cfg, number, c, job)
        yield from lands(cfg, c)
    if job.st not in JOB_ENDED:
        yield from rescue(cfg, number, c, job)


def messages(cfg: Config, c: Chunk, gen: int) -> Iterator[tuple]:
    number = c.queue[gen - 1]
    if number % 3:
        if cfg.loss:
            yield "SQS loses the message of", queued(c, gen, number - 1), None, True
        if cfg.letters and number < 3:
            dead = queued(c, gen, number + 2)
            yield "SQS dead-letters the message of", dead
        if cfg.duplicates and number % 3 < 2:
            yield (
                "SQS duplicates the message of",
                queued(c, gen, number + 1),
                None,
                True,
            )
    if number >= 3 and cfg.has("drain"):
        rest = queued(c, gen, number - 3)
        over = c.gen > gen or c.st in ENDED
        yield "reconciler drains for", rest if over else sent(rest, c.gen)


def submit(cfg: Config, number: int, c: Chunk, job: Job) -> Iterator[tuple]:
    """The submitter's writes and sends, and the reconciler's in its place."""
    by = "submitter" if job.submitter else "reconciler"
    if not job.submitter and not cfg.has("finish submit"):
        return
    may_write = job.st == Js.SUBMITTING
    if job.submitter and not job.opened and not cfg.has("job in add"):
        may_write = True
    if c.st == St.ABSENT and may_write:
        yield f"{by} writes", c._replace(st=St.PENDING, gen=job.gen)
    if job.opened and job.submitter == number + 1:
        after = job.submitter + 1 if job.submitter < cfg.chunks else 0
        yield "submitter sends", sent(c, 1), job._replace(submitter=after)


def resume(cfg: Config, number: int, c: Chunk, job: Job) -> Iterator[tuple]:
    """Reopen a chunk as the operator, at any time after the operator read it."""
    bit = 1 << number
    if job.resumer and job.todo & bit:
        left = job._replace(todo=job.todo & ~bit)
        fits = job.st == Js.REOPENING and job.gen == job.resumer
        fits = fits or not cfg.has("job in reopen")
        if c.gen < job.resumer and c.st in {St.DEAD, St.CANCELLED} and fits:
            left = left._replace(tally=job.tally & ~bit, send=job.send | bit)
            late = job.st in JOB_ENDED or job.gen != job.resumer
            broken = "no chunk is reopened under an ended job" if late else ""
            yield "operator reopens", reopened(c, job.resumer), left, False, broken
        else:
            yield "operator finds moved on", c, left
    elif job.resumer and not job.todo and job.send & bit and job.st != Js.REOPENING:
        left = job._replace(send=job.send & ~bit)
        yield "operator sends", sent(c, job.resumer), done(left)


def reopened(c: Chunk, gen: int) -> Chunk:
    facts = {"attempts": 0, "asked": 0, "recoveries": 0, "released": 0, "taken_over": 0}
    return c._replace(st=St.PENDING, gen=gen, way=Way.NONE, **facts)


def done(job: Job) -> Job:
    """End the operator once it has sent everything."""
    return job if job.send or job.todo else job._replace(resumer=0, let_run=0)


def rescue(cfg: Config, number: int, c: Chunk, job: Job) -> Iterator[tuple]:
    """Model the reconciler: resend waiting chunks, release dead leases."""
    waits = c.st in OPEN and not c.queue[c.gen - 1] % 3
    has_direction = c.way or (c.asked == 2 and cfg.has("undo in rescue"))
    looks = job.st in {Js.RUNNING, Js.FINALIZING} or (
        job.st == Js.CANCELLING and has_direction
    )
    looks = looks and (number == cfg.chunks) == (job.st == Js.FINALIZING)
    if waits and looks and cfg.has("resend"):
        yield "reconciler sends again", sent(c, c.gen)
    if c.st != St.RUNNING:
        return
    if not c.mark and not c.alive:
        yield "reconciler sees no beat for a lease from", c._replace(mark=1)
    unchanged = c.mark == 1 or (c.mark == 2 and not cfg.has("heartbeat in give-back"))
    if unchanged and looks and cfg.has("give-back"):
        back, broken = lease_released(cfg, c)
        broken = "a holder that beats is not robbed" if c.mark == 2 else broken
        yield "reconciler gives back", sent(back, c.gen), None, False, broken


def around_job(cfg: Config, job: Job, join: Chunk, census: int) -> Iterator[Step]:
    """Yield the possible events of the job, and of its join."""
    for label, after, *more in all_around_job(cfg, job, join, census):
        new_join = more[0] if more and more[0] else join
        fault = len(more) > 1 and bool(more[1])
        broken = str(more[2]) if len(more) > 2 else ""
        yield Step(label, IDLE, new_join, after, fault, broken)


def all_around_job(cfg: Config, job: Job, join: Chunk, census: int) -> Iterator[tuple]:
    whole = not census & SEES_OPEN or not cfg.has("census")
    to = job._replace
    if job.submitter:
        yield "submitter DIES", to(submitter=0), None, True
    may_submit = job.submitter or cfg.has("finish submit")
    if job.st == Js.SUBMITTING and not census & SEES_ABSENT and may_submit:
        yield "job opens", to(st=Js.RUNNING, opened=1)
    if job.st == Js.RUNNING and whole and cfg.has("finish"):
        new, after = finalized(join, job, job.gen)
        yield "reconciler FINALIZES", after, new, False, wrong_reopen(job)
    yield from cancel(cfg, job, census, whole=whole)
    yield from deadline(cfg, job)
    yield from take_up(cfg, job, census)


#: The state of a resumed job's deadline.
BY = ("", " with a deadline", "", " with the deadline that has passed")


def deadlines(cfg: Config, job: Job) -> tuple[int, ...]:
    """Return the deadlines of a resumed job; a deadline that has passed is removed."""
    if job.late <= 1:
        return (job.late,)
    return (0, 1) if cfg.has("deadline goes") else (3,)


def take_up(cfg: Config, job: Job, census: int) -> Iterator[tuple]:
    """Model redrive and resume: reopen the chunks without a result."""
    to, everything = job._replace, (1 << cfg.chunks) - 1
    if job.resumer:
        yield (
            "operator of the resume DIES",
            to(resumer=0, todo=0, send=0, let_run=0),
            None,
            True,
        )
    elif job.st in {Js.PARTIAL, Js.CANCELLED} and job.gen < cfg.gens:
        state = Js.REOPENING if cfg.has("REOPENING") else Js.RUNNING
        gen = job.gen + 1
        for late in deadlines(cfg, job):
            after = to(st=state, gen=gen, resumer=gen, todo=everything, send=0)
            after = after._replace(late=late, undoes=0)
            yield "operator RESUMES" + BY[late], after, None, True
    if job.st == Js.REOPENING:
        opened = Js.RUNNING if job.opened else Js.SUBMITTING
        if job.resumer == job.gen and not job.todo:
            yield "operator lets it run", done(to(st=opened))
        if cfg.has("finish resume"):
            yield "reconciler lets it run", to(st=opened, let_run=int(job.resumer > 0))
