"""No second holds more requests than the limit, however late the requests go out.

The provider keeps its own book of a sliding second, and refuses what is above it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import pytest

from piecework import Limits
from piecework.calls.fleet_limits import FleetLimits
from piecework.calls.portion import TURN_S
from tests.unit.piecework.calls.test_limiter import MODEL, clock, limiter, start
from tests.unit.virtual import run_virtually
from verification.flow.fleet import Fleet, MemoryQuotas
from verification.flow.provider import Provider, most_in_window

#: How much longer one request may be on its way than another one.
NETWORK_S = 0.02


@dataclass
class Stalls:
    """Call slots that a call enters late: its process had no processor."""

    rng: Random
    share: float
    most_s: float

    async def __aenter__(self) -> None:
        if self.rng.random() < self.share:
            await asyncio.sleep(self.rng.uniform(0.0, self.most_s))

    async def __aexit__(self, *_: object) -> None:
        """Nothing is held."""


@dataclass(slots=True)
class Late(Fleet):
    """A fleet whose requests go out late, and are on their way for some time.

    Attributes:
        stalls: The share of calls that stall between start and request, and how long.
        idle: Whether the workers pause together: bursts follow.
    """

    stalls: tuple[float, float] = (0.0, 0.0)
    idle: bool = False
    network: Random = field(default_factory=lambda: Random(5))

    def worker(self, rng: Random) -> tuple[Random, FleetLimits, Any]:
        rng, limits, _ = Fleet.worker(self, rng)
        return rng, limits, Stalls(rng, *self.stalls)

    async def answer(self, *args: Any, **facts: Any) -> dict[str, int]:
        await asyncio.sleep(self.network.uniform(0.0, NETWORK_S))
        answer = await Fleet.answer(self, *args, **facts)
        now = asyncio.get_running_loop().time()
        if self.idle and now % 20 > 10:
            await asyncio.sleep(20 - now % 20)
        return answer


@pytest.mark.parametrize(
    ("a_second", "workers", "stalls", "idle"),
    [
        (10, 2, (0.0, 0.0), False),
        (10, 2, (0.05, 0.3), False),
        (10, 2, (0.5, 0.9), False),
        (10, 2, (0.05, 0.3), True),
        (1, 1, (0.05, 0.3), False),
        (3, 8, (0.05, 0.3), False),
        (50, 8, (0.05, 0.3), True),
        (50, 8, (0.3, 2.5), False),
    ],
)
def test_no_second_is_above_the_limit(
    a_second: int, workers: int, stalls: tuple[float, float], *, idle: bool
) -> None:
    async def run() -> Late:
        provider = Provider(clock, requests=a_second, window_s=1.0)
        limits = Limits(requests_per_second=a_second)
        fleet = Late(
            provider,
            replace(MODEL, limits=limits),
            workers=workers,
            stalls=stalls,
            idle=idle,
        )
        await fleet.run(60.0)
        return fleet

    fleet = run_virtually(run())
    book = fleet.provider.book
    assert [] == book.refused
    assert most_in_window([at for at, _ in book.admitted], 1.0) <= a_second
    if not idle and stalls[1] < 0.9:
        used = book.requests_between(fleet.ended_at - 50, fleet.ended_at - 5)
        assert used >= 0.95 * a_second * 45
    assert fleet.record.writes / 60 / fleet.workers <= 1.3


def test_all_limits_hold_together_and_an_operator_changes_each() -> None:
    async def run() -> Late:
        provider = Provider(clock, requests=10, window_s=1.0)
        limits = Limits(300, concurrent=8, requests_per_second=10)
        fleet = Late(provider, replace(MODEL, limits=limits), workers=3)

        async def change() -> None:
            await asyncio.sleep(60.0)
            stored, slower = fleet.record.rows["model"], Limits(6_000, None, None, 4)
            fleet.record.rows["model"] = replace(stored, operator=slower)

        changing = asyncio.create_task(change())
        await fleet.run(120.0)
        await changing
        return fleet

    fleet = run_virtually(run())
    book, end = fleet.provider.book, fleet.ended_at
    assert ([], 8) == (book.refused, fleet.provider.most_in_flight)
    assert 0.95 * 300 / 60 * 40 <= book.requests_between(end - 105, end - 65)
    assert book.requests_between(end - 120, end - 60) <= 300
    times = [at for at, _ in book.admitted if at > end - 50]
    assert (4, True) == (most_in_window(times, 1.0), len(times) >= 0.92 * 4 * 50)


def test_a_call_that_was_not_sent_leaves_its_part_of_the_second() -> None:
    async def run() -> None:
        model = replace(MODEL, limits=Limits(requests_per_second=1))
        process = limiter(MemoryQuotas(), model)
        assert await start(process) < 0.1
        unsent = process.turn()
        unsent.give_back()
        assert await start(process) < TURN_S
        process.turn().note_sent()
        assert await start(process) == pytest.approx(TURN_S, abs=0.01)

    run_virtually(run())


def test_the_parts_of_a_dead_worker_are_free_after_its_lease() -> None:
    async def run() -> None:
        record = MemoryQuotas()
        model = replace(MODEL, limits=Limits(requests_per_second=1))
        dead = limiter(record, model)
        await start(dead)
        await dead._task.stop()
        assert 5.0 < await start(limiter(record, model, seed=2)) < 13.0

    run_virtually(run())
