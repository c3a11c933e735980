"""Model a worker, one external step at a time; it may die at each step."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from verification.model.endings import (
    bury,
    delete,
    finalize,
    park,
    release,
    stop,
    take_snapshot,
    tally,
)
from verification.model.provider import leftover_effects
from verification.model.stages import (
    call,
    complete,
    failed,
    landing,
    record,
    stage,
    turn,
    undid,
    undo,
)
from verification.model.state import (
    ENDED,
    OPEN,
    Chunk,
    Js,
    Pc,
    St,
    Step,
    Way,
    ended,
    lease_released,
)
from verification.model.turn import At, entered, stopping

#: The steps at which a cancel may interrupt an owner.
WORKING = {Pc.STAGE, Pc.CALL, Pc.LANDING, Pc.RECORD, Pc.COMPLETE}


def steps(at: At) -> Iterator[Step]:
    """Yield the worker's possible next steps."""
    if at.w.pc == Pc.IDLE:
        yield from receive(at)
        return
    yield from STEPS[at.w.pc](at)
    if at.w.pc not in {Pc.TALLY, Pc.LOOK, Pc.FINALIZE, Pc.DELETE, Pc.CLAIM} and at.held:
        if not at.c.alive:
            mark = (2 if not at.cfg.has("heartbeat in give-back") else 0) * at.c.mark
            yield at.to("renews", at.c._replace(alive=1, mark=min(mark, 2)))
        if at.cfg.releases and at.w.pc in {Pc.STAGE, Pc.UNDO}:
            yield at.to("is told to stop", pc=Pc.RELEASE, fault=True)
        if at.w.pc in WORKING and may_interrupt(at):
            yield at.to("is told of the cancel", pc=stopping(at))
        if at.w.pc == Pc.UNDO and not at.cfg.has("way back is not cut off"):
            yield at.to("is told of the cancel on its way back", pc=Pc.STOP)
    yield at.rest(f"CRASHES at {at.w.pc.name}", fault=True)


def may_interrupt(at: At) -> bool:
    told = at.c.asked or at.j.st == Js.CANCELLING
    return bool(told) and not at.is_join and at.w.stage < at.cfg.pivot


def receive(at: At) -> Iterator[Step]:
    for gen, number in enumerate(at.c.queue, start=1):
        if number % 3:
            yield at.to(
                f"receives chunk {at.number} gen {gen}",
                pc=Pc.CLAIM,
                target=at.number,
                gen=gen,
            )


def claim(at: At) -> Iterator[Step]:
    c, w, has = at.c, at.w, at.cfg.has
    this_gen = c.gen == w.gen or not has("gen in claim")
    if c.gen == w.gen and c.st == St.RUNNING and not c.alive:
        released, broken = lease_released(at.cfg, c)
        yield at.to("releases an expired lease", released, broken=broken)
        if has("lease in claim"):
            return
    free = c.st in OPEN
    free = free or (not has("status in claim") and c.st in ENDED)
    free = free or (not has("lease in claim") and c.st == St.RUNNING)
    not_cancelled = not c.asked or c.way or not has("cancel flag in claim")
    if c.st != St.ABSENT and this_gen and free and not_cancelled:
        yield taken(at)
        return
    if c.gen > w.gen or (c.gen == w.gen and c.st in ENDED):
        after = Pc.TALLY if c.gen == w.gen else Pc.DELETE
        yield at.to("meets an ended chunk", pc=after)
        return
    if c.gen == w.gen and c.asked and not c.way and free:
        yield stopped(at)
    elif not has("loser leaves the message"):
        yield at.to("loses, and deletes", pc=Pc.DELETE)
    else:
        yield at.rest("loses")


def stopped(at: At) -> Step:
    """Return an unclaimed chunk after its cancel."""
    c, undoes = at.c, at.c.asked == 2
    if not undoes or not at.cfg.has("undo in claim"):
        broken = leftover_effects(c, undoes=undoes)
        gone = ended(c, St.CANCELLED)
        return at.rest("cancels a chunk asked to stop", gone, broken=broken)
    back = c.cursor < at.cfg.pivot or not at.cfg.has("pivot in turn")
    way = Way.WOUND if back else Way.ONWARDS
    turned = Chunk._replace(c, st=St.WAITING, own=0, alive=0, mark=0, way=way)
    return at.to(f"turns it {way.name}", turned)


def taken(at: At) -> Step:
    c, w = at.c, at.w
    broken = ""
    if c.gen != w.gen:
        broken = "a message of an earlier life starts nothing"
    elif c.st in ENDED:
        broken = "an ended chunk stays ended"
    elif at.j.st == Js.CANCELLED and at.j.gen == c.gen:
        broken = "no claim after the job is CANCELLED"
    elif c.asked and not c.way:
        broken = "no claim of a chunk asked to stop"
    elif c.st == St.RUNNING and c.alive:
        broken = "a live lease is not taken"
    spent = c.attempts >= at.cfg.attempts and at.cfg.has("attempts in claim")
    if c.attempts >= at.cfg.attempts and not spent:
        broken = broken or "attempts are bounded"
    counted = (
        {"recoveries": min(c.recoveries + 1, 2)}
        if spent
        else {"attempts": min(c.attempts + 1, at.cfg.attempts)}
    )
    chunk = c._replace(st=St.RUNNING, own=at.me, alive=1, mark=0, **counted)
    chunk = chunk._replace(begun=int(at.cfg.undo and not at.is_join))
    facts = {"stage": c.cursor, "fresh": 0, "winding": int(spent)}
    if spent and chunk.recoveries > 1:
        pc = Pc.BURY
    elif c.way in {Way.BACK, Way.WOUND}:
        pc = Pc.UNDO
        facts["stage"] = entered(at, c) - 1
    else:
        pc = Pc.FAILED if spent else Pc.STAGE
    label = "claims to wind up" if spent else f"claims for attempt {chunk.attempts}"
    return at.to(label, chunk, pc=pc, broken=broken, **facts)


STEPS: dict[Pc, Callable[[At], Iterator[Step]]] = {
    Pc.CLAIM: claim,
    Pc.STAGE: stage,
    Pc.CALL: call,
    Pc.LANDING: landing,
    Pc.RECORD: record,
    Pc.COMPLETE: complete,
    Pc.FAILED: failed,
    Pc.TURN: turn,
    Pc.WIND: turn,
    Pc.UNDO: undo,
    Pc.UNDID: undid,
    Pc.BURY: bury,
    Pc.PARK: park,
    Pc.RELEASE: release,
    Pc.STOP: stop,
    Pc.TALLY: tally,
    Pc.LOOK: take_snapshot,
    Pc.FINALIZE: finalize,
    Pc.DELETE: delete,
}
