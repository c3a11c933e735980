"""What a claim may do, by how far its work has come."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from piecework.calls.pause_gate import PauseGate
from piecework.calls.usage import ClaimUsage
from piecework.domain.protocols import CancelRequest
from piecework.pipelines import Pipeline, Stage
from piecework.settings import Settings
from piecework_worker.claim_state import ClaimState
from piecework_worker.lease import InterruptReason
from tests.unit.piecework.fakes import Clause, envelope
from tests.unit.workers.runs import Progress
from tests.unit.workers.virtual_leases import (
    for_ever,
    new_lease,
    time,
    virtually,
)

AT = "2026-11-22T01:00:00.000Z"
PLAIN, UNDO = CancelRequest(AT, compensate=False), CancelRequest(AT, compensate=True)


async def first(_: Any) -> None: ...


async def pivot(_: Any) -> None: ...


async def last(_: Any) -> None: ...


STAGES = [Stage(first), Stage(pivot, pivot=True), Stage(last)]
PIPELINE = Pipeline(name="review", payload=Clause, stages=STAGES)


def state(done: int = 0, *, untouched: bool = True, waiting: int = 0) -> Any:
    """Return the state of a claim with so many complete stages, and waiting effects."""
    completed = {stage.name: "null" for stage in STAGES[:done]}
    kept = Progress([stage.name for stage in STAGES], completed=completed)
    ledger: Any = SimpleNamespace(cancel=None, pivot_is_untouched=untouched)
    parts: Any = kept, ledger, None, ClaimUsage(), PauseGate()
    one = ClaimState(new_lease(), PIPELINE, Settings(), *parts, loaded=True)
    effects: Any = [object()] * waiting
    one.drain.tasks.update(effects)
    return one


@pytest.mark.parametrize(
    ("done", "untouched", "waiting", "may"),
    [
        (0, True, 0, True),
        (0, False, 1, True),
        # A pivot without a call may act in a way that the ledger does not know.
        (1, True, 0, False),
        (1, True, 1, True),
        (1, False, 1, False),
        (2, True, 1, False),
    ],
)
async def test_a_cancel_interrupts_until_the_pivot_may_have_acted(
    done: int, waiting: int, *, untouched: bool, may: bool
) -> None:
    one = state(done, untouched=untouched, waiting=waiting)
    assert may is one.may_be_interrupted
    one.loaded = False
    assert not one.may_be_interrupted
    one.loaded, one.checkpoints.failure = True, envelope()
    assert not one.may_be_interrupted


@pytest.mark.parametrize(
    ("done", "cancel", "reason", "completes"),
    [
        (0, UNDO, InterruptReason.CANCEL, True),
        (0, PLAIN, InterruptReason.CANCEL, False),
        (0, None, InterruptReason.CANCEL, False),
        (0, UNDO, InterruptReason.LOST, False),
        # Its effect has no intent, or the cancel would not have interrupted it.
        (1, UNDO, InterruptReason.CANCEL, False),
    ],
)
async def test_effects_are_completed_only_before_their_compensation(
    done: int, cancel: Any, reason: InterruptReason, *, completes: bool
) -> None:
    one = state(done)
    one.lease.cancel, one.lease.reason = cancel, reason
    assert completes is one.completes_effects()


async def test_any_part_may_have_seen_the_cancel() -> None:
    for part in ("lease", "checkpoints", "ledger"):
        one = state()
        assert one.cancel is None
        getattr(one, part).cancel = UNDO
        assert UNDO is one.cancel


@virtually
async def test_a_claim_past_its_deadline_has_no_time_to_write() -> None:
    one, unwinding = state(), list[bool]()
    assert not one.has_no_time_to_write()
    async with one.lease:
        try:
            await for_ever()
        finally:
            unwinding.append(one.has_no_time_to_write())
    assert [True] == unwinding

    one = state()
    one.lease.reason = InterruptReason.STALLED
    assert not one.has_no_time_to_write()
    one.lease.reason = InterruptReason.LOST
    assert one.has_no_time_to_write()


@virtually
async def test_a_call_after_a_long_stage_may_still_wait_for_its_start() -> None:
    one, waits = state(), list[float]()
    for at in (0.0, 400.0, 800.0):
        one.lease.started_at = time() - at
        waits.append(one.latest_start() - time())
    assert [300.0, 275.0, 5.0] == waits
