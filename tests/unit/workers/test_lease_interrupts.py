from __future__ import annotations

import asyncio
from typing import Any

import pytest

from piecework.domain.protocols import ClaimLostError
from piecework.errors import StoreError
from piecework_worker.lease import InterruptReason, Lease
from tests.unit.piecework.store.tables import claim
from tests.unit.virtual import run_virtually
from tests.unit.workers.virtual_leases import (
    LEASE,
    cut_off_after,
    for_ever,
    new_lease,
    time,
    virtually,
)


@virtually
async def test_work_that_ends_in_time_is_left_alone() -> None:
    lease = new_lease()
    async with lease:
        await asyncio.sleep(53.9)
    assert lease.reason is None


@virtually
async def test_an_unrenewed_claim_ends_before_another_worker_may_claim_it() -> None:
    lease = new_lease()
    spent = await cut_off_after(1.0, lambda _: None, lease)
    assert spent == pytest.approx(LEASE * 0.9)
    assert lease.reason is InterruptReason.LOST


@virtually
async def test_the_deadline_counts_from_before_the_claim_was_asked_for() -> None:
    lease = Lease(claim(), None, LEASE, time() - 50.0, time())
    assert await cut_off_after(1.0, lambda _: None, lease) == pytest.approx(4.0)


@virtually
async def test_a_renewed_claim_lasts_from_when_it_was_asked_for() -> None:
    began = time()
    lease = new_lease()
    spent = await cut_off_after(30.0, lambda h: h.extend(began + 20.0), lease)
    assert spent == pytest.approx(20.0 + LEASE * 0.9)


@pytest.mark.parametrize("reason", list(InterruptReason))
def test_work_is_interrupted_for_a_reason(reason: InterruptReason) -> None:
    async def main() -> None:
        lease = new_lease()
        spent = await cut_off_after(5.0, lambda h: h.interrupt(reason), lease)
        assert spent == pytest.approx(5.0)
        assert lease.reason is reason

    run_virtually(main())


@virtually
async def test_the_first_reason_counts_and_no_renewal_takes_it_back() -> None:
    def ends(lease: Lease) -> None:
        lease.interrupt(InterruptReason.CANCEL)
        lease.interrupt(InterruptReason.STOPPING)
        lease.extend(time())

    lease = new_lease()
    assert await cut_off_after(5.0, ends, lease) == pytest.approx(5.0)
    assert lease.reason is InterruptReason.CANCEL


@virtually
async def test_only_work_that_runs_is_interrupted() -> None:
    lease = new_lease()
    lease.interrupt(InterruptReason.CANCEL)
    async with lease:
        pass
    lease.interrupt(InterruptReason.CANCEL)
    lease.extend(time())
    assert lease.reason is None
    await asyncio.sleep(2 * LEASE)


@virtually
async def test_unwinding_work_is_neither_renewed_nor_interrupted_again() -> None:
    lease = new_lease()

    async def slow_to_leave() -> None:
        try:
            await for_ever()
        finally:
            assert lease.interrupted is True
            lease.extend(time())
            lease.interrupt(InterruptReason.TIMEOUT)
            await asyncio.sleep(1.0)

    async with lease:
        await slow_to_leave()
    assert lease.reason is InterruptReason.LOST


@pytest.mark.parametrize("reason", [None, InterruptReason.CANCEL])
def test_a_cancellation_from_outside_passes_through(
    reason: InterruptReason | None,
) -> None:
    async def work(lease: Lease) -> None:
        async with lease:
            await for_ever()

    async def main() -> None:
        lease = new_lease()
        task = asyncio.create_task(work(lease))
        await asyncio.sleep(1.0)
        if reason is not None:
            lease.interrupt(reason)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert lease.reason is reason

    run_virtually(main())


@virtually
async def test_a_stages_own_time_out_is_not_swallowed() -> None:
    lease = new_lease()

    async def work() -> None:
        async with lease, asyncio.timeout(1.0):
            await for_ever()

    with pytest.raises(TimeoutError):
        await work()
    assert lease.reason is None


@pytest.mark.parametrize("error", [StoreError("gone"), asyncio.CancelledError()])
async def test_an_error_of_the_work_passes_through(error: BaseException) -> None:
    lease = new_lease()
    with pytest.raises(type(error)):
        async with lease:
            raise error
    assert lease.reason is None


@virtually
async def test_work_that_resumes_past_the_deadline_does_not_continue() -> None:
    loop: Any = asyncio.get_running_loop()
    lease = new_lease()
    with pytest.raises(ClaimLostError):
        lease.check_deadline()  # nothing is under way
    async with lease:
        lease.check_deadline()
        loop.moment += LEASE * 0.9 - 0.1
        lease.check_deadline()
        loop.moment += 0.1  # frozen: what cuts the work off has not run yet
        with pytest.raises(ClaimLostError):
            lease.check_deadline()
