from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.piecework.fakes import Log
from tests.unit.workers.made_up import for_ever, hold, time, virtually
from workers.drain import COUNT_S, END_S, HAND_BACK_S, drain
from workers.heart import Hold, Reason
from workers.timings import ENOUGH, Timings, UnderWay
from workers.worker import Worker

DRAIN = 20.0


class FakeHold:
    """Work that ends when it is told to."""

    def __init__(self) -> None:
        self.told = asyncio.Event()
        self.reasons: list[Reason] = []

    def end(self, reason: Reason) -> None:
        self.reasons.append(reason)
        self.told.set()


def worker_with(**mostly_takes: float) -> tuple[Any, dict[str, FakeHold]]:
    """Return a worker with a chunk at each of these stages."""
    holds = {name: FakeHold() for name in mostly_takes}
    known, now = Timings(), time()
    for name, seconds in mostly_takes.items():
        for _ in range(ENOUGH):
            known.note(UnderWay("review", name, now), now + seconds)
    station = SimpleNamespace(
        rt=SimpleNamespace(settings=SimpleNamespace(shutdown_grace_s=DRAIN)),
        heart=SimpleNamespace(holds=holds),
        under_way={name: UnderWay("review", name, now) for name in holds},
        timings=known,
        log=Log(),
    )
    return Worker(station, asyncio.Event()), holds  # type: ignore[arg-type]


async def drained(
    worker: Any, holds: dict[str, FakeHold], takes: float = 99.0
) -> float:
    """Drain a worker whose chunks take so long unless they are told to end."""

    async def chunk(name: str) -> None:
        try:
            async with asyncio.timeout(takes):
                await holds[name].told.wait()
        except TimeoutError:
            pass
        worker.station.under_way.pop(name, None)
        holds.pop(name)

    for name in holds:
        worker.start(chunk(name))
    receiving = asyncio.create_task(asyncio.sleep(0))
    began_at = time()
    await drain(worker, receiving)
    return time() - began_at


@virtually
async def test_a_stop_waits_for_what_ends_in_time() -> None:
    worker, holds = worker_with(quick=5.0)
    hold = holds["quick"]

    assert 5.0 <= await drained(worker, holds, takes=5.0) < 5.2
    assert [] == hold.reasons


@virtually
async def test_a_stop_hands_back_at_once_what_will_not_end_in_time() -> None:
    worker, holds = worker_with(long=60.0)
    hold = holds["long"]

    assert await drained(worker, holds) < 0.2
    assert [Reason.STOPPING] == hold.reasons


@virtually
async def test_what_was_expected_to_end_and_does_not_is_handed_back_at_the_end() -> (
    None
):
    worker, holds = worker_with(quick=5.0)
    hold = holds["quick"]

    assert pytest.approx(DRAIN, abs=0.2) == await drained(worker, holds)
    assert [Reason.STOPPING] == hold.reasons


@virtually
async def test_a_next_stage_that_will_not_end_is_handed_back_when_it_begins() -> None:
    worker, holds = worker_with(quick=5.0, long=60.0)
    hold = holds.pop("long")
    holds = worker.station.heart.holds = {"token": hold}
    worker.station.under_way = {"token": UnderWay("review", "quick", time())}
    following = UnderWay("review", "long", time() + 5)
    asyncio.get_running_loop().call_later(
        5, worker.station.under_way.__setitem__, "token", following
    )

    assert 5.0 <= await drained(worker, holds) < 5.2
    assert [Reason.STOPPING] == hold.reasons


@virtually
async def test_a_stop_is_over_in_time_though_nothing_ends_and_nobody_answers() -> None:
    worker, _ = worker_with()
    long_poll = asyncio.create_task(asyncio.sleep(1000.0))
    worker.start(asyncio.sleep(1000.0))
    worker.acks = SimpleNamespace(flush=for_ever)
    began_at = time()

    await drain(worker, long_poll)

    assert DRAIN + HAND_BACK_S + COUNT_S == pytest.approx(time() - began_at)
    assert DRAIN + END_S > time() - began_at
    assert ["worker.stopping", "acks.failed"] == worker.station.log.names()
    long_poll.cancel()


@virtually
async def test_a_claim_that_comes_when_the_drain_is_over_is_handed_back() -> None:
    holds: dict[str, Hold] = {}
    station: Any = SimpleNamespace(
        rt=SimpleNamespace(settings=SimpleNamespace(shutdown_grace_s=5.0)),
        heart=SimpleNamespace(holds=holds),
        under_way={},
        timings=Timings(),
        log=Log(),
    )
    worker = Worker(station, asyncio.Event())
    held = hold()

    async def late() -> None:
        await asyncio.sleep(5.5)  # the claim is on its way
        holds["token"] = held
        async with held:
            await for_ever()

    worker.start(late())
    began_at = time()
    await drain(worker, asyncio.create_task(asyncio.sleep(0)))

    assert Reason.STOPPING is held.reason
    assert set() == worker.in_hand
    assert HAND_BACK_S > time() - began_at - 5.0
