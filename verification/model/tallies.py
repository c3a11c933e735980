"""Model the end of a job: tallies of tallies, one snapshot of all chunks, the join.

There are two groups, of two chunks and of one. A chunk simply ends here, and a worker
counts it at any later time. A snapshot reads one chunk after another.
"""

from __future__ import annotations

from collections.abc import Iterator

from verification.model.space import LEFT_BEHIND
from verification.model.state import Js
from verification.model.tally_state import (
    CHUNKS,
    FULL,
    GENS,
    GROUPS,
    C,
    Pc,
    State,
    Worker,
    group_of,
    put,
    with_chunk,
)
from verification.model.theme import Has, Move, Theme


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
        if chunk != C.OPEN or s.lost & bit:
            continue
        ended = s._replace(uncounted=s.uncounted | bit)
        done = with_chunk(ended, number, C.DONE)
        yield Move(done, f"chunk {number} SUCCEEDS")
        if number == 0:
            dead = with_chunk(ended, number, C.DEAD)
            yield Move(dead, f"chunk {number} is BURIED", fault=True)
            lost = s._replace(lost=s.lost | bit)
            yield Move(lost, f"SQS loses chunk {number}", fault=True)


def start_fan_out(has: Has, s: State, me: int, w: Worker) -> Iterator[Move]:
    for number in range(CHUNKS):
        if s.uncounted >> number & 1:
            counting = w._replace(pc=Pc.COUNT, at=number)
            yield Move(put(s, me, counting), f"is to count chunk {number}")
    if s.st == Js.FINALIZING and not any(o.pc == Pc.JOIN for o in s.workers):
        yield joins(has, s, me, w)


def counts(has: Has, s: State, me: int, w: Worker) -> Iterator[Move]:
    """Add to the group's tally, then, if that is full, the group to the job's."""
    group, living = group_of(w.at), s.chunks[w.at] == C.OPEN
    if living and s.gen == 1:
        return
    members = sum(1 << number for number in GROUPS[group])
    tally = s.tallies[group] | 1 << w.at
    tallies = (*s.tallies[:group], tally, *s.tallies[group + 1 :])
    counted = s._replace(tallies=tallies)
    if tally == members:
        yield Move(put(counted, me, w._replace(pc=Pc.GROUP)), "fills the group")
    else:
        yield Move(rest(counted, me, w), "counts, and deletes the message")


def groups(has: Has, s: State, me: int, w: Worker) -> Iterator[Move]:
    full = s.full | 1 << group_of(w.at)
    counted = s._replace(full=full)
    if full == FULL:
        yield Move(put(counted, me, w._replace(pc=Pc.READ)), "fills the job")
    else:
        yield Move(rest(counted, me, w), "counts the group as full")


def rest(s: State, me: int, w: Worker) -> State:
    """Delete the message of a counted chunk; keep the snapshot."""
    after = s._replace(uncounted=s.uncounted & ~(1 << w.at))
    kept = w.saw if w.kept else 0
    return put(after, me, Worker(saw=kept, kept=w.kept))


def reads(has: Has, s: State, me: int, w: Worker) -> Iterator[Move]:
    """`start_finalizing`: first the job, then its chunks, one after the other."""
    if s.st == Js.RUNNING:
        reading = Worker(Pc.LOOK, w.at << 2, s.gen)
        yield Move(put(s, me, reading), "reads the job")
    else:
        yield Move(rest(s, me, w), "sees nothing to finish")


def reads_chunk(has: Has, s: State, me: int, w: Worker) -> Iterator[Move]:
    counted, number = w.at >> 2, w.at & 3
    if s.chunks[number] == C.OPEN and has("snapshot of all chunks"):
        back = w._replace(at=counted, kept=0, saw=0)
        yield Move(rest(s, me, back), f"sees chunk {number} open")
        return
    saw = w.saw | (s.chunks[number] != C.DONE) << number
    read = w._replace(at=w.at + 1, saw=saw)
    if number + 1 == CHUNKS:
        read = w._replace(pc=Pc.FINALIZE, at=counted, saw=saw)
    yield Move(put(s, me, read), f"sees chunk {number} ended")


def finalizes(has: Has, s: State, me: int, w: Worker) -> Iterator[Move]:
    fits = s.st == Js.RUNNING and s.gen == w.gen
    if not fits and has("life in finalize"):
        yield Move(rest(s, me, w._replace(kept=0)), "is too late to finalize")
        return
    open_ = C.OPEN in s.chunks
    broken = LEFT_BEHIND if open_ else ""
    after = s._replace(st=Js.FINALIZING)
    kept = w._replace(kept=w.gen)
    yield Move(rest(after, me, kept), "FINALIZES", broken=broken)


def joins(has: Has, s: State, me: int, w: Worker) -> Move:
    """Run the join with the snapshot of this generation, or with a new one."""
    dead = sum((c != C.DONE) << n for n, c in enumerate(s.chunks))
    own = bool(w.kept) and (w.kept == s.gen or not has("life in what is kept"))
    joining = Worker(Pc.JOIN, gen=s.gen, saw=w.saw if own else dead)
    return Move(put(s, me, joining), "runs the join")


def join_ends(has: Has, s: State, me: int, w: Worker) -> Iterator[Move]:
    """End the join and the job in one write: the claim is of this generation."""
    if s.st != Js.FINALIZING or s.gen != w.gen:
        yield Move(put(s, me, Worker()), "is refused the end")
        return
    dead = sum((c != C.DONE) << n for n, c in enumerate(s.chunks))
    broken = "a certificate says what is" if dead != w.saw else ""
    ended = s._replace(st=Js.PARTIAL if dead else Js.SUCCEEDED)
    yield Move(put(ended, me, Worker()), "ENDS the job", broken=broken)


def reconciler(has: Has, s: State) -> Iterator[Move]:
    """Resend lost messages of groups that are not full; finish the job."""
    if s.st != Js.RUNNING:
        return
    spared = s.full if s.gen == 1 or not has("first life in sparing") else 0
    for number in range(CHUNKS):
        seen = not spared >> group_of(number) & 1
        if s.lost >> number & 1 and seen:
            found = s._replace(lost=s.lost & ~(1 << number))
            yield Move(found, f"reconciler sends chunk {number} again")
    if C.OPEN not in s.chunks and has("reconciler finishes"):
        yield Move(s._replace(st=Js.FINALIZING), "reconciler FINALIZES")


def operator(has: Has, s: State) -> Iterator[Move]:
    """Remove dead chunks from the tallies, then reopen them."""
    if s.st == Js.PARTIAL and s.gen < GENS:
        after = s._replace(st=Js.REOPENING, gen=s.gen + 1, reopens=1)
        yield Move(after, "operator RESUMES", fault=True)
    if s.st != Js.REOPENING:
        return
    if s.reopens:
        group, full = s.tallies[0] & ~1, s.full & ~1
        forgot = s._replace(tallies=(group, *s.tallies[1:]), full=full, reopens=0)
        reopened = with_chunk(forgot, 0, C.OPEN)
        yield Move(reopened, "operator reopens chunk 0")
        lost = reopened._replace(lost=s.lost | 1)
        yield Move(lost, "operator reopens chunk 0 and DIES", fault=True)
    yield Move(s._replace(st=Js.RUNNING, reopens=0), "job runs on")


def ended(s: State) -> bool:
    """Return whether the job has ended and every chunk is counted."""
    over = s.st in {Js.SUCCEEDED, Js.PARTIAL}
    return over and not s.uncounted and not any(w.pc for w in s.workers)


STEPS = {
    Pc.IDLE: start_fan_out,
    Pc.COUNT: counts,
    Pc.GROUP: groups,
    Pc.READ: reads,
    Pc.LOOK: reads_chunk,
    Pc.FINALIZE: finalizes,
    Pc.JOIN: join_ends,
}
TALLIES = Theme("tallies", State(), moves, ended)
#: All chunks have ended, and the worker that filled the last tally is about to read.
ALL_ENDED = TALLIES._replace(
    start_fan_out=State(
        chunks=(C.DEAD, C.DONE, C.DONE),
        tallies=(3, 4),
        full=3,
        uncounted=4,
        workers=(Worker(Pc.READ, at=2), Worker()),
    )
)
ONE_COUNTS = TALLIES._replace(start_fan_out=State(workers=(Worker(),)))
#: A worker has filled a group and reports it late: the job has ended meanwhile.
LATE_COUNT = TALLIES._replace(
    start_fan_out=State(
        st=Js.PARTIAL,
        chunks=(C.DEAD, C.DONE, C.DONE),
        tallies=(3, 4),
        full=2,
        uncounted=2,
        workers=(Worker(Pc.GROUP, at=1),),
    )
)
