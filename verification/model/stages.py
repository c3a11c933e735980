"""Model the work on a claimed chunk: its effects, and its compensation."""

from __future__ import annotations

from collections.abc import Iterator

from verification.model.endings import succeed
from verification.model.provider import execute_request
from verification.model.state import Led, Pc, Step, Way
from verification.model.turn import At, entered, stopping


def stage(at: At) -> Iterator[Step]:
    c, w = at.c, at.w
    if not at.cfg.effects or at.is_join:
        yield at.to("works", pc=Pc.COMPLETE)
        if at.cfg.failures:
            yield at.to("fails", pc=Pc.FAILED, fault=True)
        return
    row = c.effects[w.stage]
    if not at.cfg.has("ledger"):
        yield at.to("begins an effect", pc=Pc.CALL, epoch=w.gen)
    elif row.led == Led.DONE:
        yield at.to("takes the ledger's answer", pc=Pc.COMPLETE, fresh=0)
    elif row.led == Led.INTENT:
        yield at.to("finds an intent", pc=Pc.CALL, epoch=row.epoch, fresh=0)
    elif at.held or not at.cfg.has("fence in intent"):
        broken = "" if at.held else "only a holder begins an effect"
        chunk = at.effect(led=Led.INTENT, epoch=w.gen)
        yield at.to("writes INTENT", chunk, pc=Pc.CALL, epoch=w.gen, broken=broken)
    else:
        yield at.rest("is refused the intent")


def call(at: At) -> Iterator[Step]:
    if at.cut:
        yield at.rest("is cut off")
        return
    row = at.c.effects[at.w.stage]
    if at.cfg.flying:
        sent = at.effect(flying=at.w.epoch)
        yield at.to("sends a request", sent, pc=Pc.LANDING)
        return
    done, broken = execute_request(at.cfg, row, at.w.epoch)
    chunk = at.effect(**done._asdict())
    yield at.to("calls the provider", chunk, pc=Pc.RECORD, broken=broken)
    if at.cfg.failures:
        lost = {"pc": Pc.FAILED, "fresh": 0, "fault": True, "broken": broken}
        yield at.to("calls; the answer is lost", chunk, **lost)
        yield at.to("is refused by the provider", pc=Pc.FAILED, fault=True)


def landing(at: At) -> Iterator[Step]:
    """Wait for a reply; a request may be executed after its sender stopped waiting."""
    if not at.c.effects[at.w.stage].flying:
        yield at.to("hears the answer", pc=Pc.RECORD)
    if at.cfg.failures:
        yield at.to("hears nothing", pc=Pc.FAILED, fresh=0, fault=True)


def record(at: At) -> Iterator[Step]:
    under_way = at.c.effects[at.w.stage].led == Led.INTENT
    chunk = at.effect(led=Led.DONE) if under_way and at.cfg.has("ledger") else at.c
    yield at.to("writes DONE", chunk, pc=Pc.COMPLETE)


def complete(at: At) -> Iterator[Step]:
    if at.w.stage + 1 == at.stages:
        yield from succeed(at)
        return
    if not at.held:
        yield at.rest("is refused the checkpoint")
    elif at.c.asked and at.w.stage + 1 <= at.cfg.pivot:
        yield at.to("may not go on", pc=stopping(at))
    else:
        chunk = at.c._replace(cursor=at.w.stage + 1)
        yield at.to(
            f"checkpoints stage {at.w.stage}",
            chunk,
            pc=Pc.STAGE,
            stage=at.w.stage + 1,
            fresh=1,
        )


def failed(at: At) -> Iterator[Step]:
    """`recovery.decide`: retry, compensate, or dead-letter."""
    if at.c.attempts < at.cfg.attempts:
        yield at.to("will try again", pc=Pc.PARK)
    undone = at.cfg.effects and not at.is_join
    ahead = at.w.stage < at.cfg.pivot or (at.w.stage == at.cfg.pivot and at.w.fresh)
    if undone and (ahead or not at.cfg.has("pivot in doubt")):
        yield at.to("gives up, will undo", pc=Pc.TURN)
    else:
        yield at.to("gives up", pc=Pc.BURY)


def turn(at: At) -> Iterator[Step]:
    if not at.held:
        yield at.rest("is refused the turn")
        return
    way = Way.WOUND if at.w.pc == Pc.WIND else Way.BACK
    chunk = at.c._replace(way=way)
    yield at.to("turns back", chunk, pc=Pc.UNDO, stage=entered(at, at.c) - 1)


def undo(at: At) -> Iterator[Step]:
    if at.w.stage < 0:
        end = Pc.STOP if at.c.way == Way.WOUND else Pc.BURY
        yield at.to("has undone all", pc=end, stage=0)
        return
    if any(row.flying for row in at.c.effects) and at.cfg.has("lands first"):
        return
    if not at.cfg.has("reverse order") and at.w.stage:
        yield at.to("leaves one for later", stage=at.w.stage - 1)
    row, bit = at.c.effects[at.w.stage], 1 << at.w.gen
    if row.undone == at.w.gen:
        yield at.to("has undone that", stage=at.w.stage - 1)
    elif at.cut:
        yield at.rest("is cut off")
    elif row.undo_keys & bit and at.cfg.has("compensation key"):
        yield at.to("asks again to undo", pc=Pc.UNDID)
    else:
        pivot = at.cfg.pivot < at.stages and at.c.effects[at.cfg.pivot].stands
        twice = "nothing is compensated twice" if row.undo_keys & bit else ""
        order = any(e.stands for e in at.c.effects[at.w.stage + 1 : at.cfg.pivot])
        broken = "nothing is undone past the pivot" if pivot else twice
        broken = broken or ("undone in reverse" if order else "")
        chunk = at.effect(stands=0, undo_keys=row.undo_keys | bit)
        label = f"undoes stage {at.w.stage}"
        yield at.to(label, chunk, pc=Pc.UNDID, broken=broken)


def undid(at: At) -> Iterator[Step]:
    if not at.held:
        yield at.rest("is refused the undo's record")
        return
    chunk = at.effect(led=Led.UNDONE, undone=at.w.gen)
    yield at.to("writes UNDONE", chunk, pc=Pc.UNDO, stage=at.w.stage - 1)
