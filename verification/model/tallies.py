"""Model the end of a job: tallies of tallies, one snapshot of all chunks, the join.

There are two groups, of two chunks and of one. Here, a chunk just ends, and a worker
counts it at any later time. A snapshot reads one chunk after another.
"""

from __future__ import annotations

from collections.abc import Iterator

from verification.model.small_model import Has, Move, SmallModel
from verification.model.space import ENDS_AFTER_CHUNKS
from verification.model.state import Js
from verification.model.tally_state import (
    CHUNKS,
    FULL,
    GENS,
    GROUPS,
    Pc,
    St,
    State,
    Worker,
    group_of,
    put,
    with_chunk,
)


def moves(has: Has, s: State) -> Iterator[Move]:
    yield from chunks(has, s)
    yield from reconciler(has, s)
    yield from operator(has, s)
    for me, worker in enumerate(s.workers):
        for move in STEPS[worker.pc](has, s, me, worker):
            yield move._replace(label=f"worker {me} {move.label}")
        if worker.pc:
            yield Move(put(s, me, Worker()), f"worker {me} DIES", fault=True)


def chunks(has: Has, s: State) -> Iterator[Move]:
    if s.st != Js.RUNNING:
        return
    for number, chunk in enumerate(s.chunks):
        bit = 1 << number
        if chunk != St.OPEN or s.lost & bit:
            continue
        ended = s._replace(uncounted=s.uncounted | bit)
        done = with_chunk(ended, number, St.SUCCEEDED)
        yield Move(done, f"chunk {number} SUCCEEDS")
        if number == 0:
            dead = with_chunk(ended, number, St.DEAD)
            yield Move(dead, f"chunk {number} is DEAD", fault=True)
            lost = s._replace(lost=s.lost | bit)
            yield Move(lost, f"SQS loses chunk {number}", fault=True)


def idle(has: Has, s: State, me: int, w: Worker) -> Iterator[Move]:
    for number in range(CHUNKS):
        if s.uncounted >> number & 1:
            counting = w._replace(pc=Pc.COUNT, chunk=number)
            yield Move(put(s, me, counting), f"will count chunk {number}")
    if s.st == Js.FINALIZING and not any(o.pc == Pc.JOIN for o in s.workers):
        yield start_join(has, s, me, w)


def count(has: Has, s: State, me: int, w: Worker) -> Iterator[Move]:
    """Add to the group's tally, then, if that is full, the group to the job's."""
    group, is_open = group_of(w.chunk), s.chunks[w.chunk] == St.OPEN
    if is_open and s.gen == 1:
        return
    members = sum(1 << number for number in GROUPS[group])
    tally = s.tallies[group] | 1 << w.chunk
    tallies = (*s.tallies[:group], tally, *s.tallies[group + 1 :])
    counted = s._replace(tallies=tallies)
    if tally == members:
        yield Move(put(counted, me, w._replace(pc=Pc.GROUP)), "fills the group")
    else:
        yield Move(deleted(counted, me, w), "counts, and deletes the message")


def count_group(has: Has, s: State, me: int, w: Worker) -> Iterator[Move]:
    full = s.full | 1 << group_of(w.chunk)
    counted = s._replace(full=full)
    if full == FULL:
        yield Move(put(counted, me, w._replace(pc=Pc.READ_JOB)), "fills the job")
    else:
        yield Move(deleted(counted, me, w), "counts the group as full")


def deleted(s: State, me: int, w: Worker) -> State:
    """Delete the message of a counted chunk; keep the snapshot."""
    after = s._replace(uncounted=s.uncounted & ~(1 << w.chunk))
    kept = w.seen_dead if w.kept_gen else 0
    return put(after, me, Worker(seen_dead=kept, kept_gen=w.kept_gen))


def read_job(has: Has, s: State, me: int, w: Worker) -> Iterator[Move]:
    """`start_finalizing`: first the job, then its chunks, one after the other."""
    if s.st == Js.RUNNING:
        reading = Worker(Pc.READ_CHUNK, w.chunk << 2, s.gen)
        yield Move(put(s, me, reading), "reads the job")
    else:
        yield Move(deleted(s, me, w), "reads that it cannot finalize")


def read_chunk(has: Has, s: State, me: int, w: Worker) -> Iterator[Move]:
    counted, number = w.chunk >> 2, w.chunk & 3
    if s.chunks[number] == St.OPEN and has("snapshot of all chunks"):
        without_snapshot = w._replace(chunk=counted, kept_gen=0, seen_dead=0)
        yield Move(deleted(s, me, without_snapshot), f"reads chunk {number} as open")
        return
    seen_dead = w.seen_dead | (s.chunks[number] != St.SUCCEEDED) << number
    read = w._replace(chunk=w.chunk + 1, seen_dead=seen_dead)
    if number + 1 == CHUNKS:
        read = w._replace(pc=Pc.FINALIZE, chunk=counted, seen_dead=seen_dead)
    yield Move(put(s, me, read), f"reads chunk {number} as ended")


def finalize(has: Has, s: State, me: int, w: Worker) -> Iterator[Move]:
    fits = s.st == Js.RUNNING and s.gen == w.gen
    if not fits and has("generation in finalize"):
        yield Move(deleted(s, me, w._replace(kept_gen=0)), "is too late to finalize")
        return
    open_ = St.OPEN in s.chunks
    broken = ENDS_AFTER_CHUNKS if open_ else ""
    after = s._replace(st=Js.FINALIZING)
    keeping = w._replace(kept_gen=w.gen)
    yield Move(deleted(after, me, keeping), "FINALIZES", broken=broken)


def start_join(has: Has, s: State, me: int, w: Worker) -> Move:
    """Run the join with the snapshot of this generation, or with a new one."""
    dead = sum((c != St.SUCCEEDED) << n for n, c in enumerate(s.chunks))
    same_gen = w.kept_gen == s.gen or not has("generation of snapshot")
    is_kept = bool(w.kept_gen) and same_gen
    joining = Worker(Pc.JOIN, gen=s.gen, seen_dead=w.seen_dead if is_kept else dead)
    return Move(put(s, me, joining), "runs the join")


def end_join(has: Has, s: State, me: int, w: Worker) -> Iterator[Move]:
    """End the join and the job in one write: the claim is of this generation."""
    if s.st != Js.FINALIZING or s.gen != w.gen:
        yield Move(put(s, me, Worker()), "is refused the settlement")
        return
    dead = sum((c != St.SUCCEEDED) << n for n, c in enumerate(s.chunks))
    broken = "the certificate matches the chunks" if dead != w.seen_dead else ""
    ended = s._replace(st=Js.PARTIAL if dead else Js.SUCCEEDED)
    yield Move(put(ended, me, Worker()), "ENDS the job", broken=broken)


def reconciler(has: Has, s: State) -> Iterator[Move]:
    """Dispatch lost chunks of groups that are not full; finalize the job."""
    if s.st != Js.RUNNING:
        return
    skipped = s.full if s.gen == 1 or not has("first generation in skip") else 0
    for number in range(CHUNKS):
        is_read = not skipped >> group_of(number) & 1
        if s.lost >> number & 1 and is_read:
            found = s._replace(lost=s.lost & ~(1 << number))
            yield Move(found, f"reconciler dispatches chunk {number}")
    if St.OPEN not in s.chunks and has("reconciler finishes"):
        yield Move(s._replace(st=Js.FINALIZING), "reconciler FINALIZES")


def operator(has: Has, s: State) -> Iterator[Move]:
    """Remove dead chunks from the tallies, then reopen them."""
    if s.st == Js.PARTIAL and s.gen < GENS:
        after = s._replace(st=Js.REOPENING, gen=s.gen + 1, reopening=1)
        yield Move(after, "operator REOPENS", fault=True)
    if s.st != Js.REOPENING:
        return
    if s.reopening:
        group, full = s.tallies[0] & ~1, s.full & ~1
        tallies = (group, *s.tallies[1:])
        removed = s._replace(tallies=tallies, full=full, reopening=0)
        reopened = with_chunk(removed, 0, St.OPEN)
        yield Move(reopened, "operator reopens chunk 0")
        lost = reopened._replace(lost=s.lost | 1)
        yield Move(lost, "operator reopens chunk 0 and DIES", fault=True)
    yield Move(s._replace(st=Js.RUNNING, reopening=0), "operator ends the reopening")


def ended(s: State) -> bool:
    """Return whether the job has ended and every chunk is counted."""
    job_ended = s.st in {Js.SUCCEEDED, Js.PARTIAL}
    return job_ended and not s.uncounted and not any(w.pc for w in s.workers)


STEPS = {
    Pc.IDLE: idle,
    Pc.COUNT: count,
    Pc.GROUP: count_group,
    Pc.READ_JOB: read_job,
    Pc.READ_CHUNK: read_chunk,
    Pc.FINALIZE: finalize,
    Pc.JOIN: end_join,
}
TALLIES = SmallModel("tallies", State(), moves, ended)
#: All chunks have ended, and the worker that filled the last tally is about to read.
ALL_ENDED = TALLIES._replace(
    initial=State(
        chunks=(St.DEAD, St.SUCCEEDED, St.SUCCEEDED),
        tallies=(3, 4),
        full=3,
        uncounted=4,
        workers=(Worker(Pc.READ_JOB, chunk=2), Worker()),
    )
)
ONE_COUNTS = TALLIES._replace(initial=State(workers=(Worker(),)))
#: A worker has filled a group and counts it late: the job has ended meanwhile.
LATE_COUNT = TALLIES._replace(
    initial=State(
        st=Js.PARTIAL,
        chunks=(St.DEAD, St.SUCCEEDED, St.SUCCEEDED),
        tallies=(3, 4),
        full=2,
        uncounted=2,
        workers=(Worker(Pc.GROUP, chunk=1),),
    )
)
