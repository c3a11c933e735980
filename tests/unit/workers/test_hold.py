from __future__ import annotations

import asyncio
from typing import Any

import pytest

from piecework.errors import StoreError
from piecework.ports import ClaimLostError
from tests.unit.piecework.store.tables import claim
from tests.unit.virtual import run_virtually
from tests.unit.workers.made_up import (
    LEASE,
    cut_off_after,
    for_ever,
    hold,
    time,
    virtually,
)
from workers.heart import Hold, Reason


@virtually
async def test_work_that_ends_in_time_is_left_alone() -> None:
    held = hold()
    async with held:
        await asyncio.sleep(53.9)
    assert held.reason is None


@virtually
async def test_an_unrenewed_claim_ends_before_anybody_else_may_take_it() -> None:
    held = hold()
    spent = await cut_off_after(1.0, lambda _: None, held)
    assert spent == pytest.approx(LEASE * 0.9)
    assert held.reason is Reason.LOST


@virtually
async def test_the_deadline_counts_from_before_the_claim_was_asked_for() -> None:
    held = Hold(claim(), None, LEASE, time() - 50.0, time())
    assert await cut_off_after(1.0, lambda _: None, held) == pytest.approx(4.0)


@virtually
async def test_a_renewed_claim_lasts_from_when_it_was_asked_for() -> None:
    began = time()
    held = hold()
    spent = await cut_off_after(30.0, lambda h: h.renewed(began + 20.0), held)
    assert spent == pytest.approx(20.0 + LEASE * 0.9)


@pytest.mark.parametrize("reason", list(Reason))
def test_work_is_cut_off_for_a_reason(reason: Reason) -> None:
    async def main() -> None:
        held = hold()
        spent = await cut_off_after(5.0, lambda h: h.end(reason), held)
        assert spent == pytest.approx(5.0)
        assert held.reason is reason

    run_virtually(main())


@virtually
async def test_the_first_reason_counts_and_no_renewal_takes_it_back() -> None:
    def ends(held: Hold) -> None:
        held.end(Reason.CANCEL)
        held.end(Reason.STOPPING)
        held.renewed(time())

    held = hold()
    assert await cut_off_after(5.0, ends, held) == pytest.approx(5.0)
    assert held.reason is Reason.CANCEL


@virtually
async def test_work_that_is_over_is_not_cut_off_any_more() -> None:
    held = hold()
    async with held:
        pass
    held.end(Reason.CANCEL)
    held.renewed(time())
    assert held.reason is None
    await asyncio.sleep(2 * LEASE)


@virtually
async def test_a_claim_is_held_until_the_work_on_it_begins() -> None:
    held = hold()
    held.end(Reason.CANCEL)
    assert held.reason is None


@virtually
async def test_work_on_its_way_out_is_neither_renewed_nor_ended_again() -> None:
    held = hold()

    async def slow_to_leave() -> None:
        try:
            await for_ever()
        finally:
            assert held.cut is True
            held.renewed(time())
            held.end(Reason.TIMEOUT)
            await asyncio.sleep(1.0)

    async with held:
        await slow_to_leave()
    assert held.reason is Reason.LOST


@virtually
async def test_a_cancellation_from_outside_passes_through() -> None:
    held = hold()

    async def work() -> None:
        async with held:
            await for_ever()

    task = asyncio.create_task(work())
    await asyncio.sleep(1.0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert held.reason is None


@virtually
async def test_a_cancellation_from_outside_passes_through_even_with_a_reason() -> None:
    held = hold()

    async def work() -> None:
        async with held:
            await for_ever()

    task = asyncio.create_task(work())
    await asyncio.sleep(1.0)
    held.end(Reason.CANCEL)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@virtually
async def test_a_stages_own_time_out_is_not_swallowed() -> None:
    held = hold()

    async def work() -> None:
        async with held, asyncio.timeout(1.0):
            await for_ever()

    with pytest.raises(TimeoutError):
        await work()
    assert held.reason is None


@virtually
async def test_a_stages_own_cancellation_is_not_swallowed() -> None:
    held = hold()
    with pytest.raises(asyncio.CancelledError):
        async with held:
            raise asyncio.CancelledError
    assert held.reason is None


@pytest.mark.parametrize("error", [ValueError("no"), StoreError("gone")])
async def test_an_error_of_the_work_passes_through(error: Exception) -> None:
    with pytest.raises(type(error)):
        async with hold():
            raise error


@virtually
async def test_who_wakes_up_past_the_deadline_does_not_go_on() -> None:
    loop: Any = asyncio.get_running_loop()
    held = hold()
    with pytest.raises(ClaimLostError):
        held.check()  # nothing is under way
    async with held:
        held.check()
        loop.moment += LEASE * 0.9 - 0.1
        held.check()
        loop.moment += 0.1  # frozen: what cuts the work off has not run yet
        with pytest.raises(ClaimLostError):
            held.check()
