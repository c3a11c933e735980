"""The worker that owns a cancelled chunk compensates it, once."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from piecework.domain.chunk import Chunk
from piecework.domain.moments import iso
from piecework.domain.outcome import (
    Cancelled,
    CompensationResult,
    DeadLettered,
)
from piecework.domain.protocols import CancelRequest
from piecework.saga.compensation import cancellation_cause
from piecework.store.completion import JobSnapshot
from piecework_worker.early_outcomes import (
    compensate_cancelled,
    count_calls_after_cancel,
)
from piecework_worker.lease import InterruptReason, Lease
from tests.unit.piecework.fakes import envelope
from tests.unit.piecework.store.tables import REF
from tests.unit.workers.runs import DID, chunk_run
from tests.unit.workers.virtual_leases import (
    LEASE,
    cut_off_after,
    for_ever,
    new_lease,
    time,
    virtually,
)

AT = "2026-11-22T01:00:00.000Z"
PLAIN, UNDO = CancelRequest(AT, compensate=False), CancelRequest(AT, compensate=True)


@virtually
async def test_a_compensating_chunk_keeps_its_claim() -> None:
    lease = new_lease()
    assert await cut_off_after(
        5.0, lambda h: h.request_cancel(UNDO), lease
    ) == pytest.approx(5.0)
    assert (lease.reason, lease.will_compensate) == (InterruptReason.CANCEL, True)
    lease.begin_compensation()
    assert not lease.interrupted
    spent = await cut_off_after(1.0, lambda h: h.request_cancel(UNDO), lease)
    assert spent == pytest.approx(LEASE * 0.9 - 5.0)
    assert lease.reason is InterruptReason.LOST


@virtually
async def test_a_compensation_has_the_rest_of_the_last_renewed_lease() -> None:
    began, lease = time(), new_lease()

    def renew_and_stop(h: Lease) -> None:
        h.extend(began + 20.0)
        h.request_cancel(UNDO)

    await cut_off_after(30.0, renew_and_stop, lease)
    lease.begin_compensation()
    async with lease:
        await for_ever()
    assert time() - began == pytest.approx(20.0 + LEASE * 0.9)


async def test_a_chunk_past_its_pivot_only_records_a_cancel() -> None:
    lease = new_lease()
    work: Any = SimpleNamespace(may_be_interrupted=False)
    lease.work = work
    lease.request_cancel(UNDO)
    assert (lease.cancel, lease.interrupted) == (UNDO, False)


async def test_a_started_chunk_is_compensated_and_cancelled() -> None:
    one = chunk_run(reached_stage="first")
    outcome = await compensate_cancelled(one, "first")
    assert outcome == Cancelled("first", CompensationResult.COMPENSATED)
    assert DID == ["undo"]
    assert one.checkpoints.failure.code == "job.cancel.requested"


async def test_an_effect_in_flight_happens_before_the_compensation() -> None:
    one = chunk_run(reached_stage="first")

    async def happen() -> None:
        for _ in range(100):
            await asyncio.sleep(0)
        DID.append("happened")

    in_flight = asyncio.create_task(one.ctx.caller.run_to_completion(happen()))
    await asyncio.sleep(0)
    await compensate_cancelled(one, "first")
    assert DID == ["happened", "undo"]
    await in_flight


async def test_a_compensated_stage_is_not_compensated_again() -> None:
    one = chunk_run(reached_stage="first")
    one.checkpoints.failure = cancellation_cause(one.claim.ref, "first", 0.0)
    one.checkpoints.compensated = {"first": None}
    assert await compensate_cancelled(one, "first") == Cancelled(
        "first", CompensationResult.COMPENSATED
    )
    assert DID == []
    assert iso(0.0) == one.checkpoints.failure.at  # nor turned back again


async def test_a_failed_compensation_is_dead_lettered() -> None:
    one = chunk_run(reached_stage="first")
    one.checkpoints.failure = cancellation_cause(one.claim.ref, "first", 0.0)
    one.checkpoints.compensated = {"first": envelope(stage="compensate:first:1")}
    outcome = await compensate_cancelled(one, "first")
    assert isinstance(outcome, DeadLettered)
    assert (outcome.compensation, outcome.uncompensated_stages) == (
        CompensationResult.FAILED,
        ("first",),
    )


def test_calls_after_cancel_are_counted_only_after_a_cancel() -> None:
    one = chunk_run()
    one.ctx.caller.counts.end_times.extend([0.0, 4e9])
    assert count_calls_after_cancel(one) is None
    one.lease.cancel = PLAIN
    assert count_calls_after_cancel(one) == 1


def test_a_job_is_quiesced_when_its_last_chunk_ended() -> None:
    later = AT.replace("00.000", "01.500")
    early = AT.replace("01:00:00", "00:59:00")
    snapshot = JobSnapshot()
    for number, ended_at in enumerate([later, early]):
        row = {"status": "CANCELLED", "gen": 1, "ended_at": ended_at}
        snapshot.add(Chunk.read(REF.of.chunk(number), row | {"calls_after_cancel": 1}))
    assert snapshot.quiesced_at(AT) == later
    assert snapshot.calls_after_cancel == 2
    assert JobSnapshot().quiesced_at(AT) == AT
