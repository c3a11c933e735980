"""Model a worker, one external step at a time; it may die at each step."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from verification.model.provider import leftover_effects
from verification.model.settlements import (
    dead_letter,
    delete,
    finalize,
    release,
    schedule_retry,
    settle_cancelled,
    take_snapshot,
    tally,
)
from verification.model.stages import (
    await_answer,
    call,
    compensate,
    complete,
    failed,
    record,
    record_compensation,
    set_direction,
    stage,
)
from verification.model.state import (
    ENDED,
    OPEN,
    Direction,
    Js,
    Pc,
    St,
    Step,
    release_expired,
    without_owner,
)
from verification.model.view import View, entered_stages, pc_of_cancel

#: The steps at which a cancel may interrupt an owner.
WORKING = {Pc.STAGE, Pc.CALL, Pc.AWAIT_ANSWER, Pc.RECORD, Pc.COMPLETE}


def steps(v: View) -> Iterator[Step]:
    """Yield the worker's possible next steps."""
    if v.w.pc == Pc.IDLE:
        yield from receive(v)
        return
    yield from STEPS[v.w.pc](v)
    without_lease = {Pc.TALLY, Pc.SNAPSHOT, Pc.FINALIZE, Pc.DELETE, Pc.CLAIM}
    if v.w.pc not in without_lease and v.owned:
        if not v.c.lease:
            observed = 0 if v.cfg.has("renewal in give back") else 2 * v.c.observed
            yield v.to("renews", v.c._replace(lease=1, observed=min(observed, 2)))
        if v.cfg.releases and v.w.pc in {Pc.STAGE, Pc.COMPENSATE}:
            yield v.to("receives a stop signal", pc=Pc.RELEASE, fault=True)
        if v.w.pc in WORKING and may_interrupt(v):
            yield v.to("learns of the cancel", pc=pc_of_cancel(v))
        if v.w.pc == Pc.COMPENSATE and not v.cfg.has("uninterrupted compensation"):
            yield v.to("learns of the cancel while it compensates", pc=Pc.CANCEL)
    yield v.end(f"CRASHES at {v.w.pc.name}", fault=True)


def may_interrupt(v: View) -> bool:
    cancelled = v.c.cancel or v.j.st == Js.CANCELLING
    return bool(cancelled) and not v.is_join and v.w.stage < v.cfg.pivot


def receive(v: View) -> Iterator[Step]:
    for gen, number in enumerate(v.c.queue, start=1):
        if number % 3:
            label = f"receives chunk {v.number} gen {gen}"
            yield v.to(label, pc=Pc.CLAIM, target=v.number, gen=gen)


def claim(v: View) -> Iterator[Step]:
    c, w, has = v.c, v.w, v.cfg.has
    this_gen = c.gen == w.gen or not has("generation in claim")
    if c.gen == w.gen and c.st == St.RUNNING and not c.lease:
        released, broken = release_expired(v.cfg, c)
        yield v.to("releases an expired lease", released, broken=broken)
        if has("lease in claim"):
            return
    claimable = c.st in OPEN
    claimable = claimable or (not has("status in claim") and c.st in ENDED)
    claimable = claimable or (not has("lease in claim") and c.st == St.RUNNING)
    not_cancelled = not c.cancel or c.direction or not has("cancel in claim")
    if c.st != St.ABSENT and this_gen and claimable and not_cancelled:
        yield claimed(v)
        return
    if c.gen > w.gen or (c.gen == w.gen and c.st in ENDED):
        after = Pc.TALLY if c.gen == w.gen else Pc.DELETE
        yield v.to("finds an ended chunk", pc=after)
        return
    if c.gen == w.gen and c.cancel and not c.direction and claimable:
        yield cancelled(v)
    elif not has("refused claim keeps message"):
        yield v.to("is refused the claim, and deletes", pc=Pc.DELETE)
    else:
        yield v.end("is refused the claim")


def cancelled(v: View) -> Step:
    """Cancel an unclaimed chunk, or set its direction."""
    c, compensates = v.c, v.c.cancel == 2
    if not compensates or not v.cfg.has("compensation in claim"):
        broken = leftover_effects(c, compensates=compensates)
        ended_chunk = without_owner(c, St.CANCELLED)
        return v.end("cancels the chunk", ended_chunk, broken=broken)
    compensates = c.cursor < v.cfg.pivot or not v.cfg.has("pivot in direction")
    direction = Direction.CANCEL if compensates else Direction.FORWARD
    directed = without_owner(c, St.WAITING, direction=direction)
    return v.to(f"sets direction {direction.name}", directed)


def claimed(v: View) -> Step:
    c, w = v.c, v.w
    broken = ""
    if c.gen != w.gen:
        broken = "no claim by an earlier generation"
    elif c.st in ENDED:
        broken = "an ended chunk stays ended"
    elif v.j.st == Js.CANCELLED and v.j.gen == c.gen:
        broken = "no claim after the job is CANCELLED"
    elif c.cancel and not c.direction:
        broken = "a chunk with a cancel is not claimed"
    elif c.st == St.RUNNING and c.lease:
        broken = "a chunk with a valid lease is not claimed"
    spent = c.attempts >= v.cfg.attempts and v.cfg.has("attempts in claim")
    if c.attempts >= v.cfg.attempts and not spent:
        broken = broken or "attempts are bounded"
    counted = (
        {"recoveries": min(c.recoveries + 1, 2)}
        if spent
        else {"attempts": min(c.attempts + 1, v.cfg.attempts)}
    )
    chunk = c._replace(st=St.RUNNING, owner=v.me, lease=1, observed=0, **counted)
    chunk = chunk._replace(started=int(v.cfg.compensate and not v.is_join))
    facts = {"stage": c.cursor, "fresh": 0, "recovering": int(spent)}
    if spent and chunk.recoveries > 1:
        pc = Pc.DEAD_LETTER
    elif c.direction in {Direction.FAILURE, Direction.CANCEL}:
        pc = Pc.COMPENSATE
        facts["stage"] = entered_stages(v, c) - 1
    else:
        pc = Pc.FAILED if spent else Pc.STAGE
    label = "claims for recovery" if spent else f"claims for attempt {chunk.attempts}"
    return v.to(label, chunk, pc=pc, broken=broken, **facts)


STEPS: dict[Pc, Callable[[View], Iterator[Step]]] = {
    Pc.CLAIM: claim,
    Pc.STAGE: stage,
    Pc.CALL: call,
    Pc.AWAIT_ANSWER: await_answer,
    Pc.RECORD: record,
    Pc.COMPLETE: complete,
    Pc.FAILED: failed,
    Pc.SET_FAILURE: set_direction,
    Pc.SET_CANCEL: set_direction,
    Pc.COMPENSATE: compensate,
    Pc.COMPENSATED: record_compensation,
    Pc.DEAD_LETTER: dead_letter,
    Pc.RETRY: schedule_retry,
    Pc.RELEASE: release,
    Pc.CANCEL: settle_cancelled,
    Pc.TALLY: tally,
    Pc.SNAPSHOT: take_snapshot,
    Pc.FINALIZE: finalize,
    Pc.DELETE: delete,
}
