"""The next of many short chunks wait in the worker, for a moment."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import pytest

from piecework.aws.queue import BATCH, Message
from piecework.domain.refs import JobRef
from piecework_worker.ahead import WINDOW_S, Ahead, Drawn
from piecework_worker.slots import Slots
from tests.unit.workers.test_receiver import Sqs, receiving
from tests.unit.workers.virtual_leases import virtually


class Work:
    """The queues of a worker."""

    def __init__(self) -> None:
        self.hidden: list[str] = []
        self.sent: list[tuple[str, list[Message]]] = []

    async def hide(self, receipts: list[str], seconds: float) -> None:
        assert 0 == seconds
        self.hidden += receipts

    async def send(self, messages: list[Message], *, to: str) -> None:
        self.sent.append((to, messages))


def ahead() -> tuple[Any, list[Any]]:
    started: list[Any] = []
    rt: Any = SimpleNamespace(work=Work())
    return Ahead(rt, started.append), started


def message(number: int) -> Any:
    return SimpleNamespace(receipt=f"r{number}")


def drawn(number: int, queue: str = "") -> Drawn:
    job: Any = SimpleNamespace(queue=queue)
    return Drawn(job, JobRef("t", "j").chunk(number), 1)


@virtually
async def test_as_many_wait_as_end_within_a_tenth_of_a_second() -> None:
    one, _ = ahead()
    for _ in range(39):  # within a second
        one.note_end()
        await asyncio.sleep(0.02)
    assert 3 == one.room()
    one.add(message(1))
    assert 2 == one.room()
    for _ in range(200):
        one.note_end()
    assert BATCH - 1 == one.room()
    # Chunks that take long end rarely: none waits that another worker could start.
    await asyncio.sleep(WINDOW_S + 0.01)
    assert 0 == one.room()


@virtually
async def test_what_waits_starts_in_the_order_of_its_arrival() -> None:
    one, started = ahead()
    some = [message(1), drawn(2), message(3)]
    for each in some:
        one.add(each)
    assert [True, True, True, False] == [one.start_next() for _ in range(4)]
    assert some == started
    await asyncio.sleep(2 * WINDOW_S)
    assert [] == one.rt.work.hidden


@virtually
async def test_what_finds_no_slot_within_a_second_goes_to_other_workers() -> None:
    one, started = ahead()
    for each in (message(1), drawn(2), drawn(3, "slow"), drawn(4)):
        one.add(each)
    await asyncio.sleep(WINDOW_S - 0.01)
    assert 4 == len(one)
    await asyncio.sleep(0.02)
    assert (0, []) == (len(one), started)
    assert ["r1"] == one.rt.work.hidden
    sent = {to: [m.chunk for m in messages] for to, messages in one.rt.work.sent}
    assert {"": [2, 4], "slow": [3]} == sent


@virtually
async def test_a_stop_gives_back_what_waits() -> None:
    sqs = Sqs(10)
    async with receiving(sqs, 10, 60.0) as (one, hands, running):
        await asyncio.sleep(0.5)
        one.take(message(77))
        assert (10, 1) == (hands.begun, len(one.ahead))
        one.stop.set()
        one.slot_freed.set()
        await running
        assert (["r77"], 10, 0) == (sqs.hidden, hands.begun, len(one.ahead))


@virtually
async def test_no_more_run_at_once_than_there_are_slots() -> None:
    sqs = Sqs(1000)
    async with receiving(sqs, 15, 0.05) as (_, hands, _running):
        await asyncio.sleep(6.0)
        assert (1000, 15) == (hands.begun, hands.most)


@pytest.mark.parametrize(("ending", "taken"), [(0, 5), (2, 3), (4, 1), (5, 1)])
def test_a_chunk_whose_end_is_written_takes_no_slot(ending: int, taken: int) -> None:
    freed = list[int]()
    slots = Slots(most=4, on_free=lambda: freed.append(1))
    with ExitStack() as ends:
        for _ in range(ending):
            ends.enter_context(slots.freed())
        assert (taken, ending) == (slots.taken(5), len(freed))
    assert 5 == slots.taken(5)


def test_the_slot_counts_again_when_the_end_is_written_or_has_failed() -> None:
    slots = Slots(most=4)
    with pytest.raises(ValueError, match="no answer"), slots.freed():
        raise ValueError("no answer")
    assert 5 == slots.taken(5)
