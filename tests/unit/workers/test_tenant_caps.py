"""The chunks of a tenant that a fleet runs at once, in virtual time."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import pytest

from piecework.calls.fleet_limits import FleetLimits
from piecework.domain.keys import tenant_limit
from piecework.resilience.limits import Limits
from piecework_worker.tenant_caps import WAIT_S, TenantCaps
from tests.unit.virtual import run_virtually
from verification.flow.fleet import MemoryQuotas, Silent

ACME = tenant_limit("acme")


def clock() -> float:
    return 1.7e9 + asyncio.get_running_loop().time()


@dataclass
class Fleet:
    """Workers that share the cap of a tenant, and the chunks that run."""

    cap: int
    record: MemoryQuotas = field(default_factory=MemoryQuotas)
    running: int = 0
    most: int = 0
    changes: int = 0
    stop: asyncio.Event = field(default_factory=asyncio.Event)

    async def worker(self, seed: int) -> TenantCaps:
        """Return the caps of one more worker, which has read the record."""
        quota = await self.record.read(ACME)
        if not quota.operator:
            capped = replace(
                quota, seq=quota.seq + 1, operator=Limits(None, None, self.cap)
            )
            await self.record.write(ACME, quota.seq, capped)
        log: Any = Silent()
        limits = FleetLimits(clock, Random(seed), log, self.record, f"w{seed}")
        limits.adopt(ACME, await self.record.read(ACME))
        return TenantCaps(limits, self.note)

    def note(self) -> None:
        """Count that a chunk may start."""
        self.changes += 1

    async def chunk(self, caps: TenantCaps, seconds: float = 2.0) -> None:
        """Run a chunk once it is admitted; its message comes each second."""
        while (free := await caps.admit("acme", self.stop)) is None:  # noqa: ASYNC110
            await asyncio.sleep(1.0)
        self.running += 1
        self.most = max(self.most, self.running)
        await asyncio.sleep(seconds)
        self.running -= 1
        free()


def test_a_fleet_uses_the_cap_of_a_tenant_and_never_exceeds_it() -> None:
    async def run() -> float:
        fleet = Fleet(cap=6)
        workers = [await fleet.worker(seed) for seed in range(3)]
        began = clock()
        await asyncio.gather(*(fleet.chunk(workers[n % 3]) for n in range(60)))
        assert 6 == fleet.most
        assert fleet.changes >= 60
        return clock() - began

    assert 20.0 <= run_virtually(run()) <= 40.0  # 60 chunks of 2 s, six at once


def test_one_chunk_waits_in_a_worker_and_gives_up_after_a_time() -> None:
    async def run() -> None:
        fleet = Fleet(cap=1)
        caps = await fleet.worker(1)
        free = await caps.admit("acme", fleet.stop)
        assert free is not None
        began = clock()
        waiting = asyncio.ensure_future(caps.admit("acme", fleet.stop))
        await asyncio.sleep(1.0)
        assert 0 == caps.room("acme")
        assert await caps.admit("acme", fleet.stop) is None
        assert clock() - began < WAIT_S / 2  # it did not wait behind the first one
        assert await waiting is None
        assert WAIT_S <= clock() - began < WAIT_S + 1
        free()
        await fleet.chunk(caps)

    run_virtually(run())


@pytest.mark.parametrize("steps", range(8))
def test_a_cancel_at_any_step_leaves_no_slot_behind(steps: int) -> None:
    async def run() -> None:
        fleet = Fleet(cap=1)
        caps = await fleet.worker(1)
        free = await caps.admit("acme", fleet.stop)
        assert free is not None
        waiting = asyncio.ensure_future(caps.admit("acme", fleet.stop))
        await asyncio.sleep(1.0)
        free()  # the waiting chunk has the slot within a few steps
        for _ in range(steps):
            await asyncio.sleep(0)
        waiting.cancel()
        with suppress(asyncio.CancelledError):
            if kept := await waiting:
                kept()
        began = clock()
        await fleet.chunk(caps, 0.0)
        assert clock() - began < WAIT_S / 2

    run_virtually(run())


def test_a_worker_that_stops_waits_for_no_slot_and_no_cap_costs_nothing() -> None:
    async def run() -> None:
        fleet = Fleet(cap=1)
        caps = await fleet.worker(1)
        for _ in range(100):
            assert await caps.admit("other", fleet.stop) is not None
        assert 1 == fleet.record.writes  # that of the cap
        assert await caps.admit("acme", fleet.stop) is not None
        began = clock()
        fleet.stop.set()
        assert await caps.admit("acme", fleet.stop) is None
        assert clock() - began < WAIT_S / 2

    run_virtually(run())
