"""A stage that is interrupted, or whose pivot waits: a true worker, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from piecework import Context, Dependency, Effect, Limits, PermanentError
from piecework.errors import StoreError
from tests.unit.orchestrator.simulated import Simulated
from tests.unit.workers.test_chunk_life import (
    NO,
    Act,
    Item,
    Trip,
    cancel_after,
    desk,
    life_of,
    look,
)

model = Dependency("model")
bank = Dependency(
    "bank", effect=Effect.PROVIDER_IDEMPOTENT, limits=Limits(requests_per_minute=1)
)
fax = Dependency("fax", effect=Effect.NON_IDEMPOTENT, timeout=8.0)
slow_fax = Dependency("slow-fax", effect=Effect.NON_IDEMPOTENT, timeout=30.0)
#: The calls of the life that runs: when, and what.
seen: list[tuple[float, str]] = []


def note(what: str) -> None:
    seen.append((asyncio.get_running_loop().time(), what))


async def think(number: int, *, idempotency_key: str) -> int:
    note("think")
    await asyncio.sleep(10.0)
    return number


async def book(number: int, *, idempotency_key: str) -> int:
    note("book")
    return number


async def send(number: int, *, idempotency_key: str) -> int:
    note("fax")
    await asyncio.sleep(5.0)
    return number


async def send_and_lose(number: int, *, idempotency_key: str) -> int:
    note("fax")
    await asyncio.sleep(1.0)
    raise ConnectionResetError


Fly = Callable[[Context[Item], int], Any]


@dataclass
class Flight(Trip):
    """Its second stage is a function of the context and of the number of the run."""

    fly_as: Fly | None = None
    runs: int = field(default=0)

    async def fly(self, ctx: Context[Item]) -> str:
        self.runs += 1
        self.did.append("second")
        assert self.fly_as is not None
        await self.fly_as(ctx, self.runs)
        return "flown"

    async def unbook(self, ctx: Context[Item]) -> None:
        note("undo")
        await super().unbook(ctx)


@pytest.fixture(autouse=True)
def nothing_seen() -> None:
    seen.clear()


def stop_after(seconds: float) -> Act:
    async def act(at: Simulated, _: Trip) -> None:
        await asyncio.sleep(seconds)
        at.fleet.stop_worker()
        at.fleet.worker(reconcile=True)

    return act


def times_of(what: str) -> list[float]:
    began = seen[0][0]
    return [at - began for at, name in seen if name == what]


async def ask(ctx: Context[Item], _: int) -> None:
    await ctx.wait_for("ok", ask="pay?", timeout=30)


async def nap_and_refuse(ctx: Context[Item], _: int) -> None:
    await ctx.sleep(seconds=30)
    raise PermanentError("no", code=NO)


async def pay_and_refuse(ctx: Context[Item], run: int) -> None:
    if run == 1:
        await asyncio.sleep(6.0)
        await ctx.call(fax, send, 1)
    raise PermanentError("no", code=NO)


@pytest.mark.parametrize("fly", [ask, nap_and_refuse])
def test_a_pivot_that_only_waited_was_not_tried(fly: Fly) -> None:
    end = life_of(Flight(pivot=True, fly_as=fly))
    assert end.facts[:2] == ("DEAD", "COMPENSATED")


def test_a_pivot_whose_call_a_stop_held_was_not_tried() -> None:
    settings = {"shutdown_grace_s": 8.0, "receive_wait_s": 0}
    flight = Flight(pivot=True, fly_as=pay_and_refuse)
    end = life_of(flight, stop_after(4.0), **settings)
    assert (end.facts[:2], times_of("fax")) == (("DEAD", "COMPENSATED"), [])


async def think_in_tasks(ctx: Context[Item], _: int) -> None:
    calls = [asyncio.create_task(ctx.call(model, think, n)) for n in range(6)]
    for call in asyncio.as_completed(calls):
        await call


@pytest.mark.parametrize("compensate", [True, False])
def test_a_cancel_cuts_off_the_calls_in_tasks_of_a_stage(*, compensate: bool) -> None:
    flight = Flight(fly_as=think_in_tasks)
    cancel = cancel_after(4.0, compensate=compensate)
    end = life_of(flight, cancel, max_calls_in_flight=2)
    assert end.facts[0] == "CANCELLED"
    assert times_of("think") == pytest.approx([0.0, 0.0], abs=1)
    assert end.chunk.call_usage.total("possibly_paid")["calls"] == 2


async def clean_up(ctx: Context[Item], _: int) -> None:
    try:
        await asyncio.sleep(200.0)
    finally:
        await ctx.call(desk, look, 1, 1)


def test_a_call_that_cleans_up_holds_no_interrupt() -> None:
    end = life_of(Flight(fly_as=clean_up), cancel_after(4.0, compensate=False))
    assert end.facts[0] == "CANCELLED"
    assert end.seconds < 10
    stalled = Flight(fly_as=clean_up)
    assert life_of(stalled).facts[2] == "runtime.stage.stalled"
    assert stalled.runs == 2


async def book_twice(ctx: Context[Item], _: int) -> None:
    await asyncio.gather(ctx.call(bank, book, 1), ctx.call(bank, book, 2))


def test_a_cancel_starts_no_effect_that_waits_for_its_limit() -> None:
    life_of(Flight(fly_as=book_twice), cancel_after(4.0, compensate=True))
    assert len(times_of("book")) == 1


async def fail_beside_a_fax(ctx: Context[Item], run: int) -> None:
    async def fail() -> None:
        await asyncio.sleep(1.0)
        ctx.caller.stop_reason = StoreError("gone", code="aws.service.throttled")
        raise ctx.caller.stop_reason

    others = [fail()] if run == 1 else []
    await asyncio.gather(ctx.call(fax, send, 1), *others)


def test_a_store_error_of_one_call_lets_an_effect_beside_it_end() -> None:
    end = life_of(Flight(fly_as=fail_beside_a_fax))
    assert (end.facts[0], len(times_of("fax"))) == ("SUCCEEDED", 1)


async def fax_and_lose(ctx: Context[Item], _: int) -> None:
    await ctx.call(slow_fax, send_and_lose, 1)


def test_the_next_claim_waits_for_an_effect_in_doubt_before_it_compensates() -> None:
    settings = {"shutdown_grace_s": 0.0, "receive_wait_s": 0}
    life_of(Flight(fly_as=fax_and_lose), stop_after(4.0), **settings)
    [undone] = times_of("undo")
    assert undone >= 29.0
