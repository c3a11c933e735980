"""Receives in flight: one, or two while the batches are full."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from piecework.aws.queue import BATCH
from piecework.errors import StoreError
from piecework.settings import Settings
from piecework_worker.draws import Draws
from piecework_worker.polls import MAX_RECEIVES
from piecework_worker.receiver import OUTAGE_S, Receiver
from tests.unit.piecework.fakes import NoBacklogs
from tests.unit.workers.on_the_model import worker_services
from tests.unit.workers.virtual_leases import time, virtually

#: Seconds of the way to SQS and back, of a long poll, and of a chunk.
WAY_S, POLL_S, CHUNK_S = 0.02, 20.0, 0.01


@dataclass
class Sqs:
    """A queue with so many messages; it notes when it is asked, and for how many."""

    messages: int
    polls: list[tuple[float, int]] = field(default_factory=list)
    hidden: list[str] = field(default_factory=list)
    under_way: int = 0
    most: int = 0
    errors: list[Exception] = field(default_factory=list)
    sent: asyncio.Event = field(default_factory=asyncio.Event)

    async def receive(self, most: int, **_: Any) -> list[Any]:
        self.polls.append((time(), most))
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            await asyncio.sleep(WAY_S)
            if self.errors:
                raise self.errors.pop()
            if not self.messages:
                await self.wait()
            found = min(most, self.messages)
            self.messages -= found
            return [SimpleNamespace(receipt=f"r{n}") for n in range(found)]
        finally:
            self.under_way -= 1

    async def wait(self) -> None:
        try:
            async with asyncio.timeout(POLL_S):
                await self.sent.wait()
        except TimeoutError:
            pass

    async def hide(self, receipts: list[str], seconds: float) -> None:
        assert 0 == seconds
        self.hidden += receipts


@dataclass
class Hands:
    """Starts messages, each of which takes some time."""

    takes_s: float
    receiver: Any = None
    active: set[asyncio.Task[None]] = field(default_factory=set)
    most: int = 0
    begun: int = 0

    def begin(self, _: Any) -> None:
        task = asyncio.create_task(asyncio.sleep(self.takes_s))
        self.active.add(task)
        self.begun += 1
        self.most = max(self.most, len(self.active))
        task.add_done_callback(self.done)

    def done(self, task: asyncio.Task[None]) -> None:
        self.active.discard(task)
        self.receiver.on_task_done()


@dataclass
class WithBacklogs:
    """A runtime with other backlogs."""

    rt: Any
    backlogs: Any

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rt, name)


@asynccontextmanager
async def receiving(
    sqs: Sqs, slots: int = 32, takes_s: float = CHUNK_S
) -> AsyncIterator[tuple[Receiver, Hands, asyncio.Task[None]]]:
    hands = Hands(takes_s)
    services = worker_services(Settings(max_chunks=slots), work=sqs)
    one = Receiver(
        services,
        asyncio.Event(),
        lambda: len(hands.active),
        hands.begin,
        Draws(services.rt, services.intake, services.calls.breakers, lambda *_: None),
    )
    hands.receiver = one
    running = asyncio.create_task(one.run())
    yield one, hands, running
    one.stop.set()
    one.slot_freed.set()
    await asyncio.gather(running, return_exceptions=True)


@virtually
async def test_while_batches_are_full_two_receives_are_in_flight() -> None:
    sqs = Sqs(1000)
    async with receiving(sqs) as (_, hands, _running):
        await asyncio.sleep(1.0)

        assert MAX_RECEIVES == sqs.most
        assert 1.4 * BATCH * 1.0 / WAY_S < hands.begun


@virtually
async def test_the_messages_of_both_receives_have_free_slots() -> None:
    for slots in (10, 15, 20, 32):
        sqs = Sqs(400)
        async with receiving(sqs, slots) as (_, hands, _running):
            await asyncio.sleep(5.0)

            assert 400 == hands.begun
            assert slots >= hands.most


@virtually
async def test_a_second_receive_asks_for_a_whole_batch() -> None:
    sqs = Sqs(300)
    async with receiving(sqs, 25):
        await asyncio.sleep(2.0)

    assert {BATCH} == {most for _, most in sqs.polls}


@virtually
async def test_without_room_for_another_batch_one_receive_is_in_flight() -> None:
    sqs = Sqs(300)
    async with receiving(sqs, 15):
        await asyncio.sleep(2.0)

    assert 1 == sqs.most


@virtually
async def test_what_comes_in_part_is_asked_for_by_one_receive() -> None:
    sqs = Sqs(BATCH - 1)
    async with receiving(sqs):
        await asyncio.sleep(POLL_S)

    assert 1 == sqs.most


@virtually
async def test_an_idle_worker_makes_one_long_poll_after_the_other() -> None:
    sqs = Sqs(100)
    async with receiving(sqs):
        await asyncio.sleep(2 * POLL_S)
        before, sqs.most = len(sqs.polls), sqs.under_way
        await asyncio.sleep(10 * POLL_S)

        assert len(sqs.polls) - before in {9, 10}
        assert 1 == sqs.most


@virtually
async def test_what_is_sent_to_an_idle_worker_is_begun_at_once() -> None:
    sqs = Sqs(100)
    async with receiving(sqs) as (_, hands, _running):
        await asyncio.sleep(1.0)
        sqs.messages = 1
        sqs.sent.set()
        await asyncio.sleep(0.0)
        await asyncio.sleep(WAY_S)

        assert 101 == hands.begun


@virtually
async def test_messages_received_after_a_stop_are_made_visible_at_once() -> None:
    sqs = Sqs(1000)
    async with receiving(sqs) as (one, hands, running):
        await asyncio.sleep(3.5 * WAY_S)
        assert MAX_RECEIVES == one.polls.in_flight
        begun, one.stop = hands.begun, one.stop
        one.stop.set()
        await running

        assert MAX_RECEIVES * BATCH == len(sqs.hidden)
        assert begun == hands.begun


@virtually
async def test_no_poll_begins_after_a_stop() -> None:
    async def of_queue(_: str) -> AsyncIterator[Any]:
        await asyncio.sleep(WAY_S)
        for none in ():
            yield none

    sqs = Sqs(0)
    async with receiving(sqs) as (one, _, running):
        slow: Any = WithBacklogs(one.services.rt, SimpleNamespace(of_queue=of_queue))
        one.draws.rt = slow
        await asyncio.sleep(WAY_S / 2)
        one.stop.set()
        await running

        assert [] == sqs.polls


@virtually
async def test_a_cancelled_receiver_leaves_no_receive_behind() -> None:
    sqs = Sqs(1000)
    async with receiving(sqs) as (one, _, running):
        await asyncio.sleep(3.5 * WAY_S)
        running.cancel()
        await asyncio.wait([running])

        assert 0 == sqs.under_way == one.polls.in_flight == one.reserved_slots


@virtually
async def test_a_failed_receive_is_retried_a_little_later() -> None:
    sqs = Sqs(1, errors=[StoreError("gone")])
    async with receiving(sqs) as (one, hands, _):
        await asyncio.sleep(OUTAGE_S + 3 * WAY_S)

        assert 1 == hands.begun
        assert [0.0, OUTAGE_S + WAY_S] == pytest.approx(
            [at - sqs.polls[0][0] for at, _ in sqs.polls[:2]]
        )
        assert ["worker.receive_failed"] == one.services.log.names()  # type: ignore[attr-defined]


@virtually
async def test_what_ends_a_receive_ends_the_receiver() -> None:
    sqs = Sqs(0, errors=[ValueError("odd")])
    async with receiving(sqs) as (_, _hands, running):
        with pytest.raises(ValueError, match="odd"):
            await running


@virtually
async def test_it_is_not_expected_to_receive_once_no_receive_is_under_way() -> None:
    sqs = Sqs(40)
    async with receiving(sqs, takes_s=60.0) as (one, hands, _):
        await asyncio.sleep(1.0)

        assert 32 == len(hands.active)
        assert {} == one.services.liveness.due


@virtually
async def test_the_messages_of_a_drained_job_cause_one_read_of_the_backlogs() -> None:
    async with receiving(Sqs(0)) as (one, _, running):
        running.cancel()
        read = Mock(side_effect=NoBacklogs().of_queue)
        counted: Any = WithBacklogs(one.services.rt, SimpleNamespace(of_queue=read))
        one.draws.rt = counted
        job: Any = SimpleNamespace(ref="job", gen=1, backlog_start=64, sample=())
        for wait_s, gen, reads in ((0, 1, 1), (0, 1, 1), (0, 2, 2), (POLL_S, 2, 3)):
            await asyncio.sleep(wait_s)
            job.gen = gen
            one.draws.hint(job)
            await one.draws.read_if_due()
            assert read.call_count == reads
