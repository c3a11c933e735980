from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from piecework.errors import StoreError
from piecework.settings import Settings
from piecework.store.claims import Lost, Renewed
from tests.unit.piecework.fakes import Log
from tests.unit.piecework.store.tables import claim
from tests.unit.virtual import run_virtually
from workers.heart import Heart, Hold, Reason

LEASE = 60.0


def time() -> float:
    return asyncio.get_running_loop().time()


def hold() -> Hold:
    return Hold(claim(), "receipt", LEASE, time(), time())


async def for_ever() -> None:
    await asyncio.Event().wait()


async def cut_off_after(seconds: float, cut: Callable[[Hold], None], held: Hold) -> float:
    """Work for ever; return for how long it was, given what happens in between."""
    began = time()
    asyncio.get_running_loop().call_later(seconds, cut, held)
    async with held:
        await for_ever()
    return time() - began


def virtually(test: Callable[[], Awaitable[None]]) -> Callable[[], None]:
    def run() -> None:
        run_virtually(test())  # type: ignore[arg-type]

    run.__name__ = test.__name__
    return run


# ── one hold ─────────────────────────────────────────────────────────────────


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
    with pytest.raises(TimeoutError):
        async with held:
            async with asyncio.timeout(1.0):
                await for_ever()
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


# ── all holds ────────────────────────────────────────────────────────────────


class Claims:
    """Answers renewals as it is told; notes what was asked, and when."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.replies: dict[str, Any] = {}
        self.asked_at: list[float] = []

    async def renew(self, held: Any) -> Any:
        self.said.append(f"renew {held.token}")
        self.asked_at.append(time())
        reply = self.replies.get(held.token, Renewed(cancel_requested=False))
        if isinstance(reply, Exception):
            raise reply
        if isinstance(reply, float):
            await asyncio.sleep(reply)
            return Renewed(cancel_requested=False)
        return reply

    async def hide(self, receipts: list[str], seconds: float) -> None:
        self.said.append(f"hide {','.join(receipts)} for {seconds:g}")


class Bench:
    """A heart with claims in hand."""

    def __init__(self, **settings: Any) -> None:
        self.claims = Claims()
        self.log = Log()
        self.heart = Heart(
            self.claims,  # type: ignore[arg-type]
            self.claims,  # type: ignore[arg-type]
            Settings(**settings),
            self.log,  # type: ignore[arg-type]
        )

    def take(self, token: str, work: Callable[[Hold], Awaitable[None]]) -> Any:
        held = claim()
        object.__setattr__(held, "token", token)

        async def main() -> Reason | None:
            receipt = None if token == "join" else f"r-{token}"
            async with self.heart.hold(held, receipt, time()) as one:
                async with one:
                    await work(one)
                return one.reason

        return asyncio.create_task(main())


async def waits(_: Hold) -> None:
    await for_ever()


@virtually
async def test_first_the_lease_is_renewed_and_then_the_message_hidden() -> None:
    bench = Bench()
    tasks = [bench.take(token, waits) for token in ("a", "b", "join")]
    await asyncio.sleep(0)
    await bench.heart.renew_all()
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
async def test_claims_are_renewed_every_third_of_a_lease_as_long_as_they_are_held() -> (
    None
):
    bench = Bench()
    beating = asyncio.create_task(bench.heart.beat())

    async def long(_: Hold) -> None:
        await asyncio.sleep(130.0)

    began = time()
    assert await bench.take("a", long) is None
    assert [at - began for at in bench.claims.asked_at] == pytest.approx(
        [20.0, 40.0, 60.0, 80.0, 100.0, 120.0]
    )
    await asyncio.sleep(60.0)
    assert len(bench.claims.asked_at) == 6
    beating.cancel()


async def ended(bench: Bench, token: str = "a") -> tuple[Reason | None, float]:
    beating = asyncio.create_task(bench.heart.beat())
    began = time()
    reason = await bench.take(token, waits)
    beating.cancel()
    return reason, time() - began


@virtually
async def test_a_claim_that_somebody_else_has_ends_the_work_at_once() -> None:
    bench = Bench()
    bench.claims.replies["a"] = Lost()
    assert await ended(bench) == (Reason.LOST, pytest.approx(20.0))
    assert bench.claims.said == ["renew a"]


@virtually
async def test_a_cancel_is_learnt_with_the_renewal() -> None:
    bench = Bench()
    bench.claims.replies["a"] = Renewed(cancel_requested=True)
    assert await ended(bench) == (Reason.CANCEL, pytest.approx(20.0))


@virtually
async def test_a_claim_that_cannot_be_renewed_ends_at_its_deadline() -> None:
    bench = Bench()
    bench.claims.replies["a"] = StoreError("gone")
    assert await ended(bench) == (Reason.LOST, pytest.approx(54.0))
    assert "lease.renew_failed" in bench.log.names()


@virtually
async def test_one_claim_that_cannot_be_renewed_does_not_cost_the_others_theirs() -> (
    None
):
    bench = Bench()
    bench.claims.replies["a"] = StoreError("gone")
    failing = bench.take("a", waits)

    async def long(_: Hold) -> None:
        await asyncio.sleep(130.0)

    well = bench.take("b", long)
    beating = asyncio.create_task(bench.heart.beat())
    assert await failing is Reason.LOST
    assert await well is None
    assert "hide r-b for 90" in bench.claims.said
    beating.cancel()


@virtually
async def test_a_renewal_that_hangs_does_not_hold_up_the_next_beat() -> None:
    bench = Bench()
    bench.claims.replies["a"] = 500.0
    hanging = bench.take("a", waits)

    async def long(_: Hold) -> None:
        await asyncio.sleep(130.0)

    well = bench.take("b", long)
    beating = asyncio.create_task(bench.heart.beat())
    assert await hanging is Reason.LOST
    assert await well is None
    beating.cancel()


@virtually
async def test_work_without_a_sign_of_life_is_hung() -> None:
    bench = Bench(stall_s=100.0)
    reason, spent = await ended(bench)
    assert reason is Reason.STALLED
    assert spent == pytest.approx(120.0)


@virtually
async def test_a_sign_of_life_begins_the_wait_anew() -> None:
    bench = Bench(stall_s=100.0)

    async def lively(held: Hold) -> None:
        await asyncio.sleep(90.0)
        held.progress()
        await for_ever()

    beating = asyncio.create_task(bench.heart.beat())
    began = time()
    assert await bench.take("a", lively) is Reason.STALLED
    assert time() - began == pytest.approx(200.0)
    beating.cancel()


@virtually
async def test_work_that_is_lively_and_endless_is_cut_off_all_the_same() -> None:
    bench = Bench(stall_s=100.0, max_runtime_s=500.0)

    async def endless(held: Hold) -> None:
        while True:
            await asyncio.sleep(10.0)
            held.progress()

    beating = asyncio.create_task(bench.heart.beat())
    began = time()
    assert await bench.take("a", endless) is Reason.TIMEOUT
    assert time() - began == pytest.approx(520.0)
    beating.cancel()


@virtually
async def test_work_that_does_not_let_go_keeps_no_lease_and_disturbs_nobody() -> None:
    bench = Bench(max_runtime_s=100.0)

    async def stubborn(_: Hold) -> None:
        try:
            await for_ever()
        finally:
            await asyncio.sleep(1000.0)

    bench.claims.replies["a"] = Lost()
    stuck = bench.take("a", stubborn)
    beating = asyncio.create_task(bench.heart.beat())
    await asyncio.sleep(500.0)
    assert bench.claims.said.count("renew a") == 1
    assert "lease.renew_failed" not in bench.log.names()
    assert await stuck is Reason.LOST
    beating.cancel()


@virtually
async def test_a_claim_that_was_let_go_is_not_renewed() -> None:
    bench = Bench()

    async def short(_: Hold) -> None: ...

    await bench.take("a", short)
    await bench.heart.renew_all()
    assert bench.heart.holds == {}
    assert bench.claims.said == []
