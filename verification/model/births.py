"""How a job's chunks are born: a submit that is repeated, cancelled, and taken up.

Two fan out, each however slowly: the submitter, and whoever submits again or finishes
a submit that stopped half-way. Each transaction writes one chunk here. What becomes of
a chunk that was begun is left to the model of the whole protocol.
"""

from __future__ import annotations

from collections.abc import Iterator

from verification.model.birth_state import (
    CHUNKS,
    GENS,
    QUIET,
    At,
    B,
    Chunk,
    Fan,
    State,
    put,
    with_chunk,
)
from verification.model.state import CANCELLABLE, Js
from verification.model.theme import Has, Move, Theme

ENDED = {Js.PARTIAL, Js.CANCELLED}
OVER = {B.ENDED, B.CANCELLED}


def moves(has: Has, s: State) -> Iterator[Move]:
    for me, fan in enumerate(s.fans):
        yield from fans_out(has, s, me, fan)
    yield from time(s)
    for number, chunk in enumerate(s.chunks):
        yield from works(has, s, number, chunk)
    yield from job(has, s)


def fans_out(has: Has, s: State, me: int, fan: Fan) -> Iterator[Move]:
    who = f"fan {me}"
    if fan.at == At.IDLE:
        if me:
            yield from start_fan_out(has, s, me)
        return
    yield Move(put(s, me, Fan()), f"{who} DIES", fault=True)
    alive = s
    if fan.pulse == 1 and fan.at != At.OPEN:
        fan = fan._replace(pulse=2)
        alive = s._replace(age=0) if has("sign of life") else s
    if fan.at == At.WRITE:
        yield writes(has, alive, me, fan)
        if not has("open before send") and fan.next:
            early = sends(s, fan._replace(next=fan.next - 1))
            yield Move(put(early, me, fan), f"{who} sends before it opens")
    elif fan.at == At.OPEN:
        yield opens(has, s, me, fan)
    else:
        following = fan._replace(next=fan.next + 1)
        last = following.next == CHUNKS
        after = put(sends(alive, fan), me, Fan() if last else following)
        yield Move(after, f"{who} sends chunk {fan.next}")


def start_fan_out(has: Has, s: State, me: int) -> Iterator[Move]:
    """Start a second submit, or a reconciler that finishes a submit stopped midway."""
    if not has("absent in create"):
        born = s._replace(st=Js.SUBMITTING, gen=1, opened=0)
        broken = "" if s.st == Js.SUBMITTING else "a job that exists is not made again"
        yield Move(put(born, me, Fan(At.WRITE, 1)), "submits again", broken=broken)
    at = {Js.SUBMITTING: At.WRITE, Js.RUNNING: At.SEND}.get(s.st)
    if at is None:
        return
    fan = Fan(at, s.gen)
    yield Move(put(s, me, fan), "submits again", fault=True)
    if s.age == QUIET:
        gets_on = any(f.pulse == 2 and f.gen == s.gen for f in s.fans)
        broken = "a submit that gets on is not finished by others" if gets_on else ""
        yield Move(put(s, me, fan), "reconciler finishes the submit", broken=broken)


def writes(has: Has, s: State, me: int, fan: Fan) -> Move:
    """One transaction: a check of the job, and a chunk where none exists."""
    life = fan.gen == s.gen or not has("life in birth")
    if has("job in birth") and not (s.st == Js.SUBMITTING and life):
        return Move(put(s, me, Fan()), f"fan {me} finds that the job moved on")
    there, broken = s.chunks[fan.next], ""
    chunk = Chunk(B.PENDING, fan.gen, there.messages)
    if there.st != B.ABSENT and has("absent in put"):
        chunk = there
    elif there.st != B.ABSENT:
        broken = "what is there is not born again" if there != chunk else ""
    elif s.st != Js.SUBMITTING:
        broken = "no chunk is born behind a cancel"
    elif fan.gen != s.gen:
        broken = "a chunk is born in the life of its job"
    following = fan._replace(next=fan.next + 1)
    if following.next == CHUNKS:
        following = fan._replace(at=At.OPEN, next=0)
    after = put(with_chunk(s, fan.next, chunk), me, following)
    return Move(after, f"fan {me} writes chunk {fan.next}", broken=broken)


def opens(has: Has, s: State, me: int, fan: Fan) -> Move:
    here = s.st == Js.SUBMITTING and s.gen == fan.gen
    if not here and has("state in open"):
        there = s.st == Js.RUNNING and s.gen == fan.gen
        goes_on = fan._replace(at=At.SEND) if there else Fan()
        return Move(put(s, me, goes_on), f"fan {me} does not open the job")
    broken = "" if here else "only a job that is being submitted is opened"
    opened = s._replace(st=Js.RUNNING, opened=1)
    after = put(opened, me, fan._replace(at=At.SEND))
    return Move(after, f"fan {me} opens", broken=broken or runs(after))


def runs(s: State) -> str:
    """Return what is wrong with a running job."""
    absent = any(c.st == B.ABSENT for c in s.chunks)
    return "a job that runs has all its chunks" if absent else ""


def sends(s: State, fan: Fan) -> State:
    chunk = s.chunks[fan.next]
    messages = chunk.messages | 1 << fan.gen
    return with_chunk(s, fan.next, chunk._replace(messages=messages))


def time(s: State) -> Iterator[Move]:
    """One tick, of ten seconds or a little more; each active process shows progress."""
    if s.age < QUIET:
        frozen = any(f.pulse == 1 for f in s.fans)
        fans = tuple(f._replace(pulse=int(f.at > At.IDLE)) for f in s.fans)
        ticked = s._replace(age=s.age + 1, fans=fans)
        yield Move(ticked, "time: a tick", fault=frozen)


def works(has: Has, s: State, number: int, c: Chunk) -> Iterator[Move]:
    """Messages, workers, and the sweep of a cancel."""
    for gen in range(1, GENS + 1):
        if c.messages >> gen & 1:
            left = c._replace(messages=c.messages & ~(1 << gen))
            yield received(s, number, left, gen)
    if c.st == B.BUSY:
        done = c._replace(st=B.ENDED)
        yield Move(with_chunk(s, number, done), f"chunk {number} ends")
    if c.st == B.PENDING and not c.messages and s.st == Js.RUNNING:
        again = c._replace(messages=1 << c.gen)
        yield Move(with_chunk(s, number, again), f"reconciler sends chunk {number}")
    if s.st == Js.CANCELLING and c.st in {B.PENDING, B.BUSY}:
        gone = c._replace(st=B.CANCELLED)
        yield Move(with_chunk(s, number, gone), f"sweep cancels chunk {number}")


def received(s: State, number: int, c: Chunk, gen: int) -> Move:
    if c.st != B.PENDING or c.gen != gen:
        return Move(with_chunk(s, number, c), f"chunk {number} needs no gen {gen}")
    broken = "" if s.opened else "nobody begins before all chunks are there"
    busy = c._replace(st=B.BUSY)
    return Move(with_chunk(s, number, busy), f"chunk {number} begins", broken=broken)


def job(has: Has, s: State) -> Iterator[Move]:
    over = all(c.st in OVER for c in s.chunks)
    if s.st == Js.RUNNING and over:
        yield Move(s._replace(st=Js.PARTIAL), "job ends")
    if s.st in CANCELLABLE:
        yield Move(s._replace(st=Js.CANCELLING), "operator CANCELS", fault=True)
    unwritten = {B.ABSENT} if has("unwritten are certified") else set()
    if s.st == Js.CANCELLING and all(c.st in OVER | unwritten for c in s.chunks):
        yield Move(s._replace(st=Js.CANCELLED), "job is CANCELLED")
    if s.st in ENDED and s.gen < GENS:
        resuming = s._replace(st=Js.REOPENING, gen=s.gen + 1)
        yield Move(resuming, "operator RESUMES", fault=True)
    if s.st == Js.REOPENING:
        yield from resumes(has, s)


def resumes(has: Has, s: State) -> Iterator[Move]:
    """Reopen some chunks before the job runs again; the others stay ended."""
    for number, chunk in enumerate(s.chunks):
        if chunk.st == B.CANCELLED and chunk.gen < s.gen:
            again = chunk._replace(st=B.PENDING, gen=s.gen)
            yield Move(with_chunk(s, number, again), f"operator reopens chunk {number}")
    opened = s.opened or not has("unopened goes back")
    after = s._replace(st=Js.RUNNING if opened else Js.SUBMITTING)
    yield Move(after, "job runs on", broken=runs(after) if opened else "")


def ended(s: State) -> bool:
    """Return whether the job has ended, without fan-out processes and messages."""
    speaks = any(c.messages for c in s.chunks)
    return s.st in ENDED and not speaks and not any(f.at for f in s.fans)


#: All events, for the configuration without time.
BIRTHS = Theme("births", State(age=QUIET), moves, ended)
#: One generation, and its clock.
SIGNS = Theme(
    "births, signs of life",
    State(gen=GENS, fans=(Fan(At.WRITE, GENS), Fan())),
    moves,
    ended,
)
#: Only the second submitter exists.
ALONE = BIRTHS._replace(start_fan_out=State(fans=(Fan(), Fan(At.WRITE, 1)), age=QUIET))
