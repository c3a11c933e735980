"""Model how a submit creates chunks while it is repeated, cancelled, and continued.

Two processes fan out at any speed: the submitter, and a second submitter or the
reconciler. Each birth is a write of its own, and a claimed chunk just ends. The sweep
of a cancel creates the chunks that are missing.
"""

from __future__ import annotations

from collections.abc import Iterator

from verification.model.small_model import Has, Move, SmallModel
from verification.model.state import CANCELLABLE, Js
from verification.model.submit_state import (
    CHUNKS,
    GENS,
    MAX_IDLE_TICKS,
    Chunk,
    FanOut,
    Pc,
    St,
    State,
    put,
    with_chunk,
)

JOB_ENDED = {Js.PARTIAL, Js.CANCELLED}
ENDED = {St.ENDED, St.CANCELLED}


def moves(has: Has, s: State) -> Iterator[Move]:
    for me, f in enumerate(s.fan_outs):
        yield from fan_out_steps(has, s, me, f)
    yield from tick(s)
    for number, chunk in enumerate(s.chunks):
        yield from chunk_steps(has, s, number, chunk)
    yield from job_steps(has, s)


def fan_out_steps(has: Has, s: State, me: int, f: FanOut) -> Iterator[Move]:
    name = f"process {me}"
    if f.pc == Pc.IDLE:
        if me:
            yield from start_fan_out(has, s, me)
        return
    yield Move(put(s, me, FanOut()), f"{name} DIES", fault=True)
    after_progress = s
    if f.progress == 1 and f.pc != Pc.OPEN:
        f = f._replace(progress=2)
        after_progress = s._replace(idle_ticks=0) if has("submit progress") else s
    if f.pc == Pc.WRITE:
        yield create_chunk(has, after_progress, me, f)
        if not has("open before send") and f.next:
            sent_early = send(s, f._replace(next=f.next - 1))
            yield Move(put(sent_early, me, f), f"{name} sends before it opens the job")
    elif f.pc == Pc.OPEN:
        yield open_job(has, s, me, f)
    else:
        following = f._replace(next=f.next + 1)
        last = following.next == CHUNKS
        after = put(send(after_progress, f), me, FanOut() if last else following)
        yield Move(after, f"{name} sends chunk {f.next}")


def start_fan_out(has: Has, s: State, me: int) -> Iterator[Move]:
    """Start a second submit, or a reconciler that finishes a stopped submit."""
    if not has("job absent in submit"):
        created = s._replace(st=Js.SUBMITTING, gen=1, opened=0)
        broken = "" if s.st == Js.SUBMITTING else "no job is created twice"
        after = put(created, me, FanOut(Pc.WRITE, 1))
        yield Move(after, "submits again", broken=broken)
    pc = {Js.SUBMITTING: Pc.WRITE, Js.RUNNING: Pc.SEND}.get(s.st)
    if pc is None:
        return
    f = FanOut(pc, s.gen)
    yield Move(put(s, me, f), "submits again", fault=True)
    if s.idle_ticks == MAX_IDLE_TICKS:
        has_progress = any(f.progress == 2 and f.gen == s.gen for f in s.fan_outs)
        broken = "only a stopped submit is continued" if has_progress else ""
        yield Move(put(s, me, f), "reconciler finishes the submit", broken=broken)


def create_chunk(has: Has, s: State, me: int, f: FanOut) -> Move:
    """Create a chunk if it does not exist; nothing checks the job."""
    found, broken = s.chunks[f.next], ""
    chunk = Chunk(St.PENDING, f.gen, found.messages)
    if found.st != St.ABSENT and has("chunk absent in create"):
        chunk = found
    elif found.st != St.ABSENT:
        broken = "no chunk is created twice" if found != chunk else ""
    elif s.st in JOB_ENDED:
        broken = "no chunk is created after the end"
    elif f.gen != s.gen:
        broken = "a chunk has the generation of its job"
    following = f._replace(next=f.next + 1)
    if following.next == CHUNKS:
        following = f._replace(pc=Pc.OPEN, next=0)
    after = put(with_chunk(s, f.next, chunk), me, following)
    return Move(after, f"process {me} creates chunk {f.next}", broken=broken)


def open_job(has: Has, s: State, me: int, f: FanOut) -> Move:
    matches = s.st == Js.SUBMITTING and s.gen == f.gen
    if not matches and has("status in open"):
        found = s.st == Js.RUNNING and s.gen == f.gen
        following = f._replace(pc=Pc.SEND) if found else FanOut()
        return Move(put(s, me, following), f"process {me} does not open the job")
    broken = "" if matches else "only a SUBMITTING job is opened"
    opened = s._replace(st=Js.RUNNING, opened=1)
    after = put(opened, me, f._replace(pc=Pc.SEND))
    broken = broken or wrong_running(after)
    return Move(after, f"process {me} opens the job", broken=broken)


def wrong_running(s: State) -> str:
    """Return what is wrong with a RUNNING job."""
    absent = any(c.st == St.ABSENT for c in s.chunks)
    return "a RUNNING job has all its chunks" if absent else ""


def send(s: State, f: FanOut) -> State:
    chunk = s.chunks[f.next]
    messages = chunk.messages | 1 << f.gen
    return with_chunk(s, f.next, chunk._replace(messages=messages))


def tick(s: State) -> Iterator[Move]:
    """One tick, of ten seconds or a little more; each active process owes progress."""
    if s.idle_ticks < MAX_IDLE_TICKS:
        frozen = any(f.progress == 1 for f in s.fan_outs)
        fan_outs = tuple(f._replace(progress=int(f.pc > Pc.IDLE)) for f in s.fan_outs)
        ticked = s._replace(idle_ticks=s.idle_ticks + 1, fan_outs=fan_outs)
        yield Move(ticked, "time: a tick", fault=frozen)


def chunk_steps(has: Has, s: State, number: int, c: Chunk) -> Iterator[Move]:
    """Yield the steps of messages, workers and the sweep of a cancel."""
    for gen in range(1, GENS + 1):
        if c.messages >> gen & 1:
            left = c._replace(messages=c.messages & ~(1 << gen))
            yield received(s, number, left, gen)
    if c.st == St.RUNNING:
        after = with_chunk(s, number, c._replace(st=St.ENDED))
        yield Move(after, f"chunk {number} ends")
    if c.st == St.PENDING and not c.messages and s.st == Js.RUNNING:
        sent = c._replace(messages=1 << c.gen)
        yield Move(with_chunk(s, number, sent), f"reconciler sends chunk {number}")
    if s.st == Js.CANCELLING and c.st == St.ABSENT and has("births in sweep"):
        born = c._replace(st=St.PENDING, gen=s.gen)
        yield Move(with_chunk(s, number, born), f"sweep creates chunk {number}")
    if s.st == Js.CANCELLING and c.st in {St.PENDING, St.RUNNING}:
        cancelled = c._replace(st=St.CANCELLED)
        yield Move(with_chunk(s, number, cancelled), f"sweep cancels chunk {number}")


def received(s: State, number: int, c: Chunk, gen: int) -> Move:
    if c.st != St.PENDING or c.gen != gen:
        return Move(with_chunk(s, number, c), f"chunk {number} discards gen {gen}")
    broken = "" if s.opened else "no claim before all chunks exist"
    claimed = with_chunk(s, number, c._replace(st=St.RUNNING))
    return Move(claimed, f"chunk {number} is claimed", broken=broken)


def job_steps(has: Has, s: State) -> Iterator[Move]:
    all_ended = all(c.st in ENDED for c in s.chunks)
    if s.st == Js.RUNNING and all_ended:
        yield Move(s._replace(st=Js.PARTIAL), "job ends")
    if s.st in CANCELLABLE:
        yield Move(s._replace(st=Js.CANCELLING), "operator CANCELS", fault=True)
    uncreated = set() if has("all chunks in cancelled") else {St.ABSENT}
    if s.st == Js.CANCELLING and all(c.st in ENDED | uncreated for c in s.chunks):
        yield Move(s._replace(st=Js.CANCELLED), "job is CANCELLED")
    if s.st in JOB_ENDED and s.gen < GENS:
        reopening = s._replace(st=Js.REOPENING, gen=s.gen + 1)
        yield Move(reopening, "operator REOPENS", fault=True)
    if s.st == Js.REOPENING:
        yield from reopen(has, s)


def reopen(has: Has, s: State) -> Iterator[Move]:
    """Reopen some chunks before the job runs again; the others stay ended."""
    for number, chunk in enumerate(s.chunks):
        if chunk.st == St.CANCELLED and chunk.gen < s.gen:
            reopened = with_chunk(s, number, chunk._replace(st=St.PENDING, gen=s.gen))
            yield Move(reopened, f"operator reopens chunk {number}")
    opened = s.opened or not has("unopened job is submitted")
    after = s._replace(st=Js.RUNNING if opened else Js.SUBMITTING)
    broken = wrong_running(after) if opened else ""
    yield Move(after, "operator ends the reopening", broken=broken)


def ended(s: State) -> bool:
    """Return whether the job has ended, without fan-out processes and messages."""
    has_messages = any(c.messages for c in s.chunks)
    return s.st in JOB_ENDED and not has_messages and not any(f.pc for f in s.fan_outs)


#: All steps, without time.
SUBMITS = SmallModel("submits", State(idle_ticks=MAX_IDLE_TICKS), moves, ended)
#: One generation, with time.
SUBMIT_PROGRESS = SmallModel(
    "submits, progress",
    State(gen=GENS, fan_outs=(FanOut(Pc.WRITE, GENS), FanOut())),
    moves,
    ended,
)
#: Only the second submitter exists.
ONE_SUBMITTER = SUBMITS._replace(
    initial=State(fan_outs=(FanOut(), FanOut(Pc.WRITE, 1)), idle_ticks=MAX_IDLE_TICKS)
)
