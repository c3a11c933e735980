"""Renewals: a hung, failed or late one must not affect the others."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, cast

from piecework.calls.pause_gate import PauseGate
from piecework.calls.usage import ClaimUsage
from piecework.errors import StoreError
from piecework.store.claims import Renewed
from piecework_worker.lease import ANSWERED, InterruptReason, Lease, Work
from tests.unit.workers.test_lease import Bench, waits
from tests.unit.workers.virtual_leases import LEASE, time, virtually


@virtually
async def test_one_renewal_that_is_never_answered_loses_no_claim() -> None:
    bench = Bench()
    beating = asyncio.create_task(bench.lease_renewer.run())
    work = bench.take("a", waits)
    bench.claims.replies["a"] = 1e6
    await asyncio.sleep(LEASE / 3 * 2 - 1)
    bench.claims.replies["a"] = Renewed(1)
    await asyncio.sleep(LEASE * 3)

    assert not work.done()
    work.cancel()
    beating.cancel()
    await asyncio.gather(work, beating, return_exceptions=True)


@virtually
async def test_an_old_failure_does_not_make_a_worker_unhealthy() -> None:
    bench = Bench()
    lease_renewer = bench.lease_renewer
    beating = asyncio.create_task(lease_renewer.run())

    async def short(_: Any) -> None:
        await asyncio.sleep(LEASE / 3 + 1)

    bench.claims.replies["a"] = StoreError("gone")
    await bench.take("a", short)
    await asyncio.sleep(3_600)
    bench.claims.replies["b"] = StoreError("gone")
    work = bench.take("b", waits)
    await asyncio.sleep(LEASE / 3 + 1)

    assert ANSWERED in lease_renewer.liveness.due
    assert lease_renewer.liveness.due[ANSWERED] > time()
    work.cancel()
    beating.cancel()
    await asyncio.gather(work, beating, return_exceptions=True)


@virtually
async def test_a_renewal_sends_the_number_of_known_renewals() -> None:
    bench = Bench()
    work = bench.take("a", waits)
    await asyncio.sleep(0)
    replies = [Renewed(1), StoreError("gone"), Renewed(3), Renewed(4)]
    for reply in replies:
        bench.claims.replies["a"] = reply
        with suppress(StoreError):
            await bench.lease_renewer.renew_all()

    assert [0, 1, 1, 3] == bench.claims.after
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)


@virtually
async def test_a_renewal_carries_what_the_calls_used_so_far() -> None:
    bench, usage = Bench(), ClaimUsage()

    async def works(lease: Lease) -> None:
        lease.work = cast("Work", SimpleNamespace(usage=usage, gate=PauseGate(len)))
        await waits(lease)

    work = bench.take("a", works)
    await asyncio.sleep(0)
    await bench.lease_renewer.renew_all()
    usage.whole.add("paid", "m", [1, 10])
    await bench.lease_renewer.renew_all()

    assert [usage.whole, usage.whole] == bench.claims.used
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)


@virtually
async def test_the_message_of_a_chunk_that_ended_during_a_renewal_is_not_hidden() -> (
    None
):
    bench = Bench()

    async def short(_: Lease) -> None:
        await asyncio.sleep(1.0)

    ending, going_on = bench.take("a", short), bench.take("b", waits)
    bench.claims.replies["b"] = 2.0
    await asyncio.sleep(0)
    await bench.lease_renewer.renew_all()

    assert ["hide r-b for 90"] == [s for s in bench.claims.said if "hide" in s]
    going_on.cancel()
    await asyncio.gather(ending, going_on, return_exceptions=True)


@virtually
async def test_a_lease_counts_from_the_request_of_its_renewal() -> None:
    bench = Bench()
    work = bench.take("a", waits)
    bench.claims.replies["a"] = LEASE / 4
    await asyncio.sleep(0)
    requested_at = time()
    await bench.lease_renewer.renew_all()

    assert InterruptReason.LOST is await work
    assert time() - requested_at < LEASE
