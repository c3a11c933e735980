"""Calls begin a few in each round of the event loop."""

from __future__ import annotations

import asyncio

from piecework.calls.in_flight import CALLS_PER_ROUND, CallPacer


class Line:
    """Calls that begin, and what else goes on meanwhile."""

    def __init__(self, calls: int) -> None:
        self.rounds = CallPacer()
        self.begun: list[int] = []
        self.tasks = [asyncio.create_task(self.call(n)) for n in range(calls)]

    async def call(self, n: int) -> None:
        await self.rounds.wait_turn()
        self.begun.append(n)


async def test_a_lonely_call_begins_at_once() -> None:
    rounds = CallPacer()
    turn = rounds.wait_turn()
    try:
        turn.send(None)
    except StopIteration:
        return
    message = "it waited"
    raise AssertionError(message)


async def test_a_few_calls_begin_in_each_round_and_in_their_order() -> None:
    line = Line(3 * CALLS_PER_ROUND)
    seen = []
    while len(line.begun) < 3 * CALLS_PER_ROUND:
        await asyncio.sleep(0)
        seen.append(len(line.begun))
    assert list(range(3 * CALLS_PER_ROUND)) == line.begun
    steps = [now - before for before, now in zip([0, *seen], seen, strict=False)]
    assert CALLS_PER_ROUND == max(steps)


async def test_a_later_call_does_not_overtake_waiting_ones() -> None:
    line = Line(3 * CALLS_PER_ROUND)
    await asyncio.sleep(0)
    late = asyncio.create_task(line.call(99))
    await asyncio.gather(*line.tasks, late)
    assert 99 == line.begun[-1]


async def test_a_call_that_is_cut_off_while_it_waits_takes_no_turn() -> None:
    line = Line(3 * CALLS_PER_ROUND)
    await asyncio.sleep(0)
    for task in line.tasks[CALLS_PER_ROUND : 2 * CALLS_PER_ROUND]:
        task.cancel()
    await asyncio.gather(*line.tasks, return_exceptions=True)
    assert [
        *range(CALLS_PER_ROUND),
        *range(2 * CALLS_PER_ROUND, 3 * CALLS_PER_ROUND),
    ] == line.begun


async def test_after_a_pause_as_many_begin_at_once_again() -> None:
    line = Line(CALLS_PER_ROUND)
    await asyncio.gather(*line.tasks)
    await asyncio.sleep(0)
    more = [asyncio.create_task(line.call(n)) for n in range(CALLS_PER_ROUND)]
    await asyncio.sleep(0)
    assert 2 * CALLS_PER_ROUND == len(line.begun)
    await asyncio.gather(*more)
