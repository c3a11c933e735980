"""How many messages a worker asks for, and when."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from piecework.aws.queue import BATCH
from piecework.settings import Settings
from piecework_worker.receiver import GATHER_S
from piecework_worker.worker import Worker
from tests.unit.workers.on_the_model import worker_services
from tests.unit.workers.virtual_leases import time, virtually


def worker(most: int, *durations: float) -> Any:
    """Return a worker with tasks of these durations."""
    services = worker_services(Settings(max_chunks=most))
    one = Worker(services, asyncio.Event())
    for seconds in durations:
        one.start_task(asyncio.sleep(seconds))
    return one


async def asked(one: Any) -> tuple[int, float]:
    """Return how many messages it asks for, and after how many seconds."""
    began = time()
    return await one.receiver.free_slots(), time() - began


@virtually
async def test_a_worker_with_room_for_a_batch_asks_at_once() -> None:
    assert (BATCH, 0.0) == await asked(worker(32, *[9.0] * 22))


@virtually
async def test_a_worker_asks_as_soon_as_there_is_room_for_a_batch() -> None:
    ends = [0.001 * n for n in range(1, 8)]
    free, after = await asked(worker(12, *ends, 9.0, 9.0))
    assert (BATCH, pytest.approx(0.007)) == (free, after)


@virtually
async def test_a_worker_does_not_wait_long_for_room_for_a_batch() -> None:
    free, after = await asked(worker(12, 0.001, *[9.0] * 9))
    assert (3, pytest.approx(GATHER_S)) == (free, after)


@virtually
async def test_a_full_worker_waits_for_the_first_slot_and_then_briefly() -> None:
    free, after = await asked(worker(12, 1.0, *[9.0] * 11))
    assert (1, pytest.approx(1.0 + GATHER_S)) == (free, after)


@virtually
async def test_a_small_worker_asks_for_all_that_it_can_take() -> None:
    assert (2, pytest.approx(0.005)) == await asked(worker(2, 0.005))


@virtually
async def test_a_stopping_worker_does_not_wait_for_slots() -> None:
    one = worker(1, 9.0)
    asyncio.get_running_loop().call_later(1.0, one.stop.set)
    asyncio.get_running_loop().call_later(1.0, one.receiver.slot_freed.set)
    _, after = await asked(one)
    assert pytest.approx(1.0 + GATHER_S) == after
