"""Run a claim: the engine runs while the lease is valid, and each end is an outcome."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from piecework.domain.outcome import (
    STORE,
    WORKER,
    Deferred,
    Released,
    Succeeded,
)
from piecework.domain.protocols import ClaimLostError
from piecework.errors import StoreError
from tests.unit.workers.runs import chunk_run, loading, ran
from tests.unit.workers.virtual_leases import LEASE, for_ever, time, virtually


@pytest.fixture(autouse=True)
def nothing_to_load(monkeypatch: pytest.MonkeyPatch) -> None:
    loading(monkeypatch)


async def hang(_: Any) -> None:
    await for_ever()


async def test_a_run_that_ends_has_the_outcome_of_the_engine() -> None:
    one = chunk_run()
    assert await ran(one) == Succeeded("null")
    assert one.calls_after_cancel is None
    assert one.journal.kept is None


@pytest.mark.parametrize(
    ("code", "blocked_on"),
    [
        ("aws.access.denied", STORE),
        ("aws.credentials.invalid", STORE),
        ("aws.key.unusable", STORE),
        ("aws.service.throttled", STORE),
        ("aws.service.unavailable", STORE),
        ("runtime.worker.exhausted", WORKER),
        ("runtime.worker.no_child", WORKER),
        ("aws.request.invalid", None),  # the chunk may be its cause
        ("aws.transaction.conflict", None),
    ],
)
async def test_an_outage_of_the_store_defers_the_chunk_and_a_refused_write_releases_it(
    code: str, blocked_on: str | None
) -> None:
    async def fails(_: Any) -> None:
        message = "gone"
        raise StoreError(message, code=code)

    one = chunk_run(run=fails)
    outcome = await ran(one)
    assert isinstance(outcome, Deferred if blocked_on else Released)
    assert getattr(outcome, "blocked_on", None) == blocked_on
    assert one.ctx.log.names() == ["chunk.store_failed"]


@virtually
async def test_a_lost_claim_writes_its_calls_only_for_the_bill() -> None:
    one, began = chunk_run(run=hang), time()
    with pytest.raises(ClaimLostError):
        await ran(one)
    assert time() - began == pytest.approx(LEASE * 0.9)
    assert one.journal.is_late


async def test_a_claim_that_a_write_found_lost_writes_its_calls_for_the_bill() -> None:
    async def finds_out(_: Any) -> None:
        raise ClaimLostError

    one = chunk_run(run=finds_out)
    with pytest.raises(ClaimLostError):
        await ran(one)
    assert one.journal.is_late


@virtually
async def test_a_cancellation_from_outside_is_not_an_outcome() -> None:
    one = chunk_run(run=hang)
    running = asyncio.create_task(ran(one))
    await asyncio.sleep(1.0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert one.lease.reason is None
