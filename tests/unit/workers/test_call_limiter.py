"""The places for calls in flight."""

from __future__ import annotations

import asyncio

import pytest

from piecework_worker.call_limiter import CallLimiter


class Crowd:
    """Callers that stay inside until they are told to leave."""

    def __init__(self, slots: int, callers: int) -> None:
        self.slots = CallLimiter(slots)
        self.came: list[int] = []
        self.leave = [asyncio.Event() for _ in range(callers)]
        self.tasks = [asyncio.create_task(self.call(n)) for n in range(callers)]

    async def call(self, n: int) -> None:
        async with self.slots:
            self.came.append(n)
            await self.leave[n].wait()

    async def settled(self) -> list[int]:
        for _ in range(5):
            await asyncio.sleep(0)
        return self.came

    async def end(self) -> None:
        for event in self.leave:
            event.set()
        await asyncio.gather(*self.tasks, return_exceptions=True)


async def test_no_more_are_inside_than_there_are_places() -> None:
    crowd = Crowd(2, 5)
    assert [0, 1] == await crowd.settled()
    assert 2 == crowd.slots.in_use
    await crowd.end()
    assert [0, 1, 2, 3, 4] == crowd.came
    assert 0 == crowd.slots.in_use


async def test_the_first_waiter_gets_the_next_slot() -> None:
    crowd = Crowd(2, 4)
    await crowd.settled()
    crowd.leave[1].set()
    assert [0, 1, 2] == await crowd.settled()
    assert 2 == crowd.slots.in_use
    await crowd.end()


async def test_a_cancelled_waiter_is_skipped() -> None:
    crowd = Crowd(1, 3)
    await crowd.settled()
    crowd.tasks[1].cancel()
    await crowd.settled()
    crowd.leave[0].set()
    assert [0, 2] == await crowd.settled()
    await crowd.end()
    assert 0 == crowd.slots.in_use


async def test_a_waiter_cancelled_with_a_new_slot_passes_it_on() -> None:
    crowd = Crowd(1, 3)
    await crowd.settled()
    crowd.leave[0].set()
    await asyncio.sleep(0)  # the first has left; the second has not run yet
    crowd.tasks[1].cancel()
    assert [0, 2] == await crowd.settled()
    await crowd.end()
    assert 0 == crowd.slots.in_use


async def test_a_call_that_fails_leaves_its_place() -> None:
    slots = CallLimiter(1)
    with pytest.raises(ValueError, match="bug"):
        async with slots:
            raise ValueError("bug")
    assert 0 == slots.in_use
