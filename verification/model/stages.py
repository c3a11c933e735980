"""Model the work on a claimed chunk: its effects, and its compensation."""

from __future__ import annotations

from collections.abc import Iterator

from verification.model.provider import execute_request
from verification.model.settlements import succeed
from verification.model.state import Direction, Ledger, Pc, Step
from verification.model.view import View, entered_stages, pc_of_cancel


def stage(v: View) -> Iterator[Step]:
    c, w = v.c, v.w
    if not v.cfg.effects or v.is_join:
        yield v.to("works", pc=Pc.COMPLETE)
        if v.cfg.failures:
            yield v.to("fails", pc=Pc.FAILED, fault=True)
        return
    row = c.effects[w.stage]
    if not v.cfg.has("ledger"):
        yield v.to("starts an effect", pc=Pc.CALL, key_gen=w.gen)
    elif row.ledger == Ledger.DONE:
        yield v.to("replays the ledger's answer", pc=Pc.COMPLETE, fresh=0)
    elif row.ledger == Ledger.INTENT:
        yield v.to("finds an intent", pc=Pc.CALL, key_gen=row.key_gen, fresh=0)
    elif v.owned or not v.cfg.has("fence in intent"):
        broken = "" if v.owned else "only the owner starts an effect"
        chunk = v.effect(ledger=Ledger.INTENT, key_gen=w.gen)
        yield v.to("writes INTENT", chunk, pc=Pc.CALL, key_gen=w.gen, broken=broken)
    else:
        yield v.end("is refused the intent")


def call(v: View) -> Iterator[Step]:
    if v.has_stopped:
        yield v.end("stops by its own clock")
        return
    row = v.c.effects[v.w.stage]
    if v.cfg.late_requests:
        sent = v.effect(in_flight=v.w.key_gen)
        yield v.to("sends a request", sent, pc=Pc.AWAIT_ANSWER)
        return
    done, broken = execute_request(v.cfg, row, v.w.key_gen)
    chunk = v.effect(**done._asdict())
    yield v.to("calls the provider", chunk, pc=Pc.RECORD, broken=broken)
    if v.cfg.failures:
        lost = {"pc": Pc.FAILED, "fresh": 0, "fault": True, "broken": broken}
        yield v.to("calls; the answer is lost", chunk, **lost)
        yield v.to("is refused by the provider", pc=Pc.FAILED, fault=True)


def await_answer(v: View) -> Iterator[Step]:
    """Wait for an answer; the provider may execute the request after the wait."""
    if not v.c.effects[v.w.stage].in_flight:
        yield v.to("receives the answer", pc=Pc.RECORD)
    if v.cfg.failures:
        yield v.to("receives no answer", pc=Pc.FAILED, fresh=0, fault=True)


def record(v: View) -> Iterator[Step]:
    is_intent = v.c.effects[v.w.stage].ledger == Ledger.INTENT
    chunk = v.effect(ledger=Ledger.DONE) if is_intent and v.cfg.has("ledger") else v.c
    yield v.to("writes DONE", chunk, pc=Pc.COMPLETE)


def complete(v: View) -> Iterator[Step]:
    if v.w.stage + 1 == v.stages:
        yield from succeed(v)
        return
    if not v.owned:
        yield v.end("is refused the checkpoint")
    elif v.c.cancel and v.w.stage + 1 <= v.cfg.pivot:
        yield v.to("may not continue", pc=pc_of_cancel(v))
    else:
        chunk = v.c._replace(cursor=v.w.stage + 1)
        label = f"checkpoints stage {v.w.stage}"
        yield v.to(label, chunk, pc=Pc.STAGE, stage=v.w.stage + 1, fresh=1)


def failed(v: View) -> Iterator[Step]:
    """`recovery.decide`: retry, compensate, or dead-letter."""
    if v.c.attempts < v.cfg.attempts:
        yield v.to("will retry", pc=Pc.RETRY)
    compensated = v.cfg.effects and not v.is_join
    before_pivot = v.w.stage < v.cfg.pivot or (v.w.stage == v.cfg.pivot and v.w.fresh)
    if compensated and (before_pivot or not v.cfg.has("unknown pivot")):
        yield v.to("will compensate", pc=Pc.SET_FAILURE)
    else:
        yield v.to("will dead-letter", pc=Pc.DEAD_LETTER)


def set_direction(v: View) -> Iterator[Step]:
    if not v.owned:
        yield v.end("is refused the direction")
        return
    direction = Direction.CANCEL if v.w.pc == Pc.SET_CANCEL else Direction.FAILURE
    chunk = v.c._replace(direction=direction)
    first = entered_stages(v, v.c) - 1
    yield v.to("starts to compensate", chunk, pc=Pc.COMPENSATE, stage=first)


def compensate(v: View) -> Iterator[Step]:
    if v.w.stage < 0:
        end = Pc.CANCEL if v.c.direction == Direction.CANCEL else Pc.DEAD_LETTER
        yield v.to("has compensated all stages", pc=end, stage=0)
        return
    if any(row.in_flight for row in v.c.effects) and v.cfg.has("drain"):
        return
    if not v.cfg.has("reverse order") and v.w.stage:
        yield v.to("skips a stage", stage=v.w.stage - 1)
    row, bit = v.c.effects[v.w.stage], 1 << v.w.gen
    if row.compensated == v.w.gen:
        yield v.to("finds the stage compensated", stage=v.w.stage - 1)
    elif v.has_stopped:
        yield v.end("stops by its own clock")
    elif v.w.stage >= v.c.cursor and row.ledger in {Ledger.NONE, Ledger.COMPENSATED}:
        yield v.to("finds that nothing happened", stage=v.w.stage - 1)
    elif row.compensation_keys & bit and v.cfg.has("compensation key"):
        yield v.to("repeats the compensation", pc=Pc.COMPENSATED)
    else:
        pivot = v.cfg.pivot < v.stages and v.c.effects[v.cfg.pivot].present
        twice = "no stage is compensated twice" if row.compensation_keys & bit else ""
        order = any(e.present for e in v.c.effects[v.w.stage + 1 : v.cfg.pivot])
        broken = "nothing is compensated past the pivot" if pivot else twice
        broken = broken or ("stages are compensated in reverse order" if order else "")
        chunk = v.effect(present=0, compensation_keys=row.compensation_keys | bit)
        label = f"compensates stage {v.w.stage}"
        yield v.to(label, chunk, pc=Pc.COMPENSATED, broken=broken)


def record_compensation(v: View) -> Iterator[Step]:
    if not v.owned:
        yield v.end("is refused the record")
        return
    chunk = v.effect(ledger=Ledger.COMPENSATED, compensated=v.w.gen)
    yield v.to("writes COMPENSATED", chunk, pc=Pc.COMPENSATE, stage=v.w.stage - 1)
