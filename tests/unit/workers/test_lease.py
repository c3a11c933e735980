from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

from piecework.calls.pause_gate import PauseGate
from piecework.calls.usage import ClaimUsage
from piecework.domain.protocols import CancelRequest
from piecework.errors import StoreError
from piecework.resilience.lanes import Lane
from piecework.settings import Settings
from piecework.store.claims import Lost, Renewed
from piecework_worker.lease import ANSWERED, InterruptReason, Lease, LeaseRenewer
from tests.unit.piecework.fakes import Log
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


class Claims:
    """Answers renewals as set; records each request and its time."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.replies: dict[str, Any] = {}
        self.asked_at: list[float] = []
        self.after: list[int] = []
        self.used: list[Any] = []

    async def renew(self, lease: Any, beats: int, used: Any = None) -> Any:
        self.used.append(used)
        self.said.append(f"renew {lease.token}")
        self.asked_at.append(time())
        self.after.append(beats)
        reply = self.replies.get(lease.token, Renewed(beats + 1))
        if isinstance(reply, Exception):
            raise reply
        if isinstance(reply, float):
            await asyncio.sleep(reply)
            return Renewed(beats + 1)
        return reply

    async def hide(self, receipts: list[str], seconds: float) -> None:
        self.said.append(f"hide {','.join(receipts)} for {seconds:g}")


class Bench:
    """A lease renewer with claims."""

    def __init__(self, **settings: Any) -> None:
        self.claims = Claims()
        self.log = Log()
        self.lease_renewer = LeaseRenewer(
            self.claims,  # type: ignore[arg-type]
            self.claims,  # type: ignore[arg-type]
            Settings(**{"lease_s": LEASE, **settings}),
            self.log,  # type: ignore[arg-type]
        )

    def take(self, token: str, work: Callable[[Lease], Awaitable[None]]) -> Any:
        lease = claim()
        object.__setattr__(lease, "token", token)

        async def main() -> InterruptReason | None:
            receipt = None if token == "join" else f"r-{token}"
            with self.lease_renewer.maintain(lease, receipt, time()) as one:
                async with one:
                    await work(one)
                return one.reason

        return asyncio.create_task(main())


async def waits(_: Lease) -> None:
    await for_ever()


@virtually
async def test_first_the_lease_is_renewed_and_then_the_message_hidden() -> None:
    bench = Bench()
    tasks = [bench.take(token, waits) for token in ("a", "b", "join")]
    await asyncio.sleep(0)
    await bench.lease_renewer.renew_all()
    assert bench.claims.said == [
        "renew a",
        "renew b",
        "renew join",
        "hide r-a,r-b for 90",
    ]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@virtually
async def test_leases_are_renewed_every_third_of_their_length() -> None:
    bench = Bench()
    beating = asyncio.create_task(bench.lease_renewer.run())

    async def long(_: Lease) -> None:
        await asyncio.sleep(130.0)

    began = time()
    assert await bench.take("a", long) is None
    assert [at - began for at in bench.claims.asked_at] == pytest.approx(
        [20.0, 40.0, 60.0, 80.0, 100.0, 120.0]
    )
    await asyncio.sleep(60.0)
    assert len(bench.claims.asked_at) == 6
    beating.cancel()


async def ended(bench: Bench) -> tuple[InterruptReason | None, float]:
    beating = asyncio.create_task(bench.lease_renewer.run())
    began = time()
    reason = await bench.take("a", waits)
    beating.cancel()
    return reason, time() - began


@virtually
async def test_a_claim_of_another_worker_interrupts_the_work_at_once() -> None:
    bench = Bench()
    bench.claims.replies["a"] = Lost()
    assert await ended(bench) == (InterruptReason.LOST, pytest.approx(20.0))
    assert bench.claims.said == ["renew a"]


@virtually
async def test_a_renewal_reports_a_cancel() -> None:
    bench = Bench()
    bench.claims.replies["a"] = Renewed(1, CancelRequest("then", compensate=False))
    assert await ended(bench) == (InterruptReason.CANCEL, pytest.approx(20.0))


@virtually
async def test_a_claim_that_cannot_be_renewed_ends_at_its_deadline() -> None:
    bench = Bench()
    bench.claims.replies["a"] = StoreError("gone")
    assert await ended(bench) == (InterruptReason.LOST, pytest.approx(54.0))
    assert "lease.renew_failed" in bench.log.names()
    assert {"renew a"} == set(bench.claims.said)


@virtually
async def test_one_claim_that_cannot_be_renewed_does_not_cost_the_others_theirs() -> (
    None
):
    bench = Bench()
    bench.claims.replies["a"] = StoreError("gone")
    failing = bench.take("a", waits)

    async def long(_: Lease) -> None:
        await asyncio.sleep(130.0)

    well = bench.take("b", long)
    beating = asyncio.create_task(bench.lease_renewer.run())
    assert await failing is InterruptReason.LOST
    assert await well is None
    assert "hide r-b for 90" in bench.claims.said
    beating.cancel()


@virtually
async def test_a_hung_renewal_does_not_delay_the_next() -> None:
    bench = Bench()
    bench.claims.replies["a"] = 500.0
    hanging = bench.take("a", waits)

    async def long(_: Lease) -> None:
        await asyncio.sleep(130.0)

    well = bench.take("b", long)
    beating = asyncio.create_task(bench.lease_renewer.run())
    assert await hanging is InterruptReason.LOST
    assert await well is None
    beating.cancel()


@virtually
async def test_work_without_progress_is_stalled() -> None:
    bench = Bench(stall_timeout_s=100.0)
    reason, spent = await ended(bench)
    assert reason is InterruptReason.STALLED
    assert spent == pytest.approx(120.0)


@virtually
async def test_progress_from_a_thread_restarts_the_stall_timeout() -> None:
    bench = Bench(stall_timeout_s=100.0)

    async def lively(lease: Lease) -> None:
        await asyncio.sleep(90.0)
        ThreadPoolExecutor(1).submit(lease.record_progress).result()
        await for_ever()

    beating = asyncio.create_task(bench.lease_renewer.run())
    began = time()
    assert await bench.take("a", lively) is InterruptReason.STALLED
    assert time() - began == pytest.approx(200.0)
    beating.cancel()


@virtually
async def test_work_whose_call_waits_is_not_stalled() -> None:
    bench = Bench(stall_timeout_s=100.0)

    async def patient(lease: Lease) -> None:
        work: Any = SimpleNamespace(gate=PauseGate(), usage=ClaimUsage())
        lease.work = work
        with work.gate.waiting():
            await asyncio.sleep(500.0)

    beating = asyncio.create_task(bench.lease_renewer.run())
    assert await bench.take("a", patient) is None
    beating.cancel()


@virtually
async def test_an_attempt_in_a_slow_lane_neither_stalls_nor_counts_as_runtime() -> None:
    bench = Bench(stall_timeout_s=100.0, max_runtime_s=500.0)

    async def slow(lease: Lease) -> None:
        work: Any = SimpleNamespace(gate=PauseGate(), usage=ClaimUsage())
        lease.work = work
        with work.gate.in_lane(Lane.flex()):
            await asyncio.sleep(900.0)
        with work.gate.in_lane(Lane.direct()):
            await for_ever()

    beating = asyncio.create_task(bench.lease_renewer.run())
    began = time()
    assert await bench.take("a", slow) is InterruptReason.STALLED
    assert time() - began == pytest.approx(1020.0, abs=20.0)
    beating.cancel()


@virtually
async def test_work_with_progress_is_interrupted_after_the_longest_runtime() -> None:
    bench = Bench(stall_timeout_s=100.0, max_runtime_s=500.0)

    async def endless(lease: Lease) -> None:
        with lease.waiting():  # for its turn
            await asyncio.sleep(1000.0)
        while True:
            await asyncio.sleep(10.0)
            lease.record_progress()

    beating = asyncio.create_task(bench.lease_renewer.run())
    began = time()
    assert await bench.take("a", endless) is InterruptReason.TIMEOUT
    assert time() - began == pytest.approx(1520.0)
    beating.cancel()


@virtually
async def test_work_that_ignores_its_interrupt_keeps_no_lease() -> None:
    bench = Bench(max_runtime_s=100.0)

    async def stubborn(_: Lease) -> None:
        try:
            await for_ever()
        finally:
            await asyncio.sleep(1000.0)

    bench.claims.replies["a"] = Lost()
    stuck = bench.take("a", stubborn)
    beating = asyncio.create_task(bench.lease_renewer.run())
    await asyncio.sleep(500.0)
    assert bench.claims.said.count("renew a") == 1
    assert "lease.renew_failed" not in bench.log.names()
    assert await stuck is InterruptReason.LOST
    beating.cancel()


@virtually
async def test_an_interrupted_claim_is_renewed_while_its_end_is_written() -> None:
    bench = Bench()
    with bench.lease_renewer.maintain(claim(), None, time()) as one:
        await cut_off_after(1.0, lambda it: it.interrupt(InterruptReason.STALLED), one)
        await asyncio.sleep(LEASE / 2)
        await bench.lease_renewer.renew_all()
        await asyncio.sleep(LEASE / 2)
        assert not one.is_lost()


@virtually
async def test_a_released_claim_is_not_renewed() -> None:
    bench = Bench()

    async def short(_: Lease) -> None: ...

    await bench.take("a", short)
    await bench.lease_renewer.renew_all()
    assert bench.lease_renewer.leases == {}
    assert ([], []) == (bench.claims.said, bench.log.names())


async def felt(bench: Bench, *moments: float) -> list[bool]:
    """Return whether the renewals are overdue at these moments."""
    beating, began = asyncio.create_task(bench.lease_renewer.run()), time()
    found = []
    for moment in moments:
        await asyncio.sleep(began + moment - time())
        due = bench.lease_renewer.liveness.due
        found.append(due.get(ANSWERED, time()) < time())
        assert due["lease renewal"] > time()
    beating.cancel()
    return found


@virtually
async def test_renewals_that_fail_for_a_lease_make_a_busy_worker_unhealthy() -> None:
    bench = Bench()

    async def one_after_another() -> None:
        while True:
            bench.claims.replies["a"] = StoreError("gone")
            await bench.take("a", waits)

    working = asyncio.create_task(one_after_another())

    assert [False, True, True] == await felt(bench, 75.0, 90.0, 150.0)
    working.cancel()


@virtually
async def test_one_answered_renewal_keeps_the_worker_healthy() -> None:
    bench = Bench()
    bench.claims.replies["a"] = StoreError("gone")
    tasks = [bench.take(token, waits) for token in ("a", "b")]

    assert [False, False] == await felt(bench, 90.0, 150.0)
    for task in tasks:
        task.cancel()


@virtually
async def test_a_worker_without_leases_is_healthy_when_renewals_fail() -> None:
    bench = Bench()
    bench.claims.replies["a"] = StoreError("gone")
    failing = bench.take("a", waits)

    assert [False, False] == await felt(bench, 90.0, 900.0)
    assert InterruptReason.LOST is await failing


class Work:
    """An object that a stage works on."""


def test_ended_work_is_freed_without_the_garbage_collector() -> None:
    lease_renewer, ended = Bench().lease_renewer, []

    async def main() -> None:
        with lease_renewer.maintain(claim(), "receipt", time()) as one:
            work: Any = Work()
            work.check = one.check_deadline
            one.work = work
            ended.append(weakref.ref(work))

    gc.disable()
    try:
        run_virtually(main())
        assert [None] == [work() for work in ended]
    finally:
        gc.enable()


@virtually
async def test_a_lease_is_lost_at_its_end_or_as_soon_as_the_table_says_so() -> None:
    one, refused = new_lease(), new_lease()
    refused.reason = InterruptReason.LOST
    assert (one.is_lost(), refused.is_lost()) == (False, True)
    await asyncio.sleep(LEASE)
    assert one.is_lost()
