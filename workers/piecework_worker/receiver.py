"""Fill the free slots of a worker: with messages of its queues, and with draws."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from typing import Any

from piecework import telemetry
from piecework.aws.queue import BATCH, Delivery
from piecework.errors import PieceworkError, StoreError
from piecework.telemetry.health import REQUEST_S
from piecework_worker.ahead import Ahead, Drawn
from piecework_worker.draws import Draws
from piecework_worker.polls import Poll, Polls, receive_wait_s
from piecework_worker.services import WorkerServices
from piecework_worker.turns import MESSAGES

#: Seconds to wait for more free slots before a receive of fewer than ten messages. A
#: receive costs the same for one message as for ten.
GATHER_S = 0.02
#: Seconds to wait after SQS was unreachable.
OUTAGE_S = 1.0
#: Seconds to wait after a message whose pipeline this worker does not have; and at
#: most. Ten such messages in a row double the time. An idle worker would otherwise
#: receive the messages of all other workers first, again and again.
UNKNOWN_S, LONGEST_UNKNOWN_S = 0.5, 20.0


@dataclass(slots=True)
class Receiver:
    """Receives messages for the free slots of one worker.

    Attributes:
        active_count: Returns the number of the worker's active tasks.
        start: Starts the work on a message, or on a drawn chunk.
        slot_freed: Set when a slot may have become free.
        wake_at: Active tasks at which a wait for several slots ends.
        polls: The receives of each queue.
        ahead: What waits for the next free slot.
        reserved_slots: Slots that the receives in flight may fill.
        paused: Whether the worker takes no new chunk, until its ECS protection changes
            or it stops.
    """

    services: WorkerServices
    stop: asyncio.Event
    active_count: Callable[[], int]
    start: Callable[[Delivery | Drawn], None]
    draws: Draws
    slot_freed: asyncio.Event = field(default_factory=asyncio.Event)
    wake_at: float = inf
    reserved_slots: int = 0
    paused: bool = False
    polls: Polls = field(init=False)
    ahead: Ahead = field(init=False)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.polls = Polls(self.services.intake.queues)
        self.ahead = Ahead(self.services.rt, self.start)

    async def run(self) -> None:
        """Receive messages while there are free slots, until the worker stops.

        A long poll in flight is never cancelled: SQS would hide its messages although
        no worker received them. Messages that arrive after the stop are made visible
        again at once.
        """
        try:
            while not self.stop.is_set():
                self._forget({task for task in self._tasks if task.done()})
                self.services.intake.next_chunks.wake.clear()
                if self._next_poll() is None and not self.draws.has_chunks:
                    await self._wait_for_one()
                    continue
                await self._leave_to_others()
                free = await self.free_slots()
                if not self.stop.is_set() and not self.paused:
                    await self._fill(free)
            await self.ahead.give_back()
            while self._tasks:
                await self._wait_for(*self._tasks)
        finally:
            for task in self._tasks:
                task.cancel()
            if self._tasks:
                await asyncio.wait(self._tasks)

    async def _leave_to_others(self) -> None:
        """Pause after messages of pipelines that only other workers have."""
        in_a_row = min(self.services.intake.notes.unknown_in_a_row, BATCH * 10)
        if in_a_row:
            pause = min(UNKNOWN_S * 2 ** (in_a_row / BATCH), LONGEST_UNKNOWN_S)
            with suppress(TimeoutError):
                await asyncio.wait_for(self.stop.wait(), pause)

    async def _fill(self, free: int) -> None:
        """Fill free slots from the source whose turn it is."""
        services = self.services
        services.liveness.expect_within("drawing", REQUEST_S)
        try:
            await self.draws.read_if_due()
            if self.stop.is_set():
                return
            turn = self.draws.turn(polling=self.polls.are_all_long)
            if turn != MESSAGES:
                await self.draws.draw(turn, free, self.ahead.room())
                services.message_received.set()
        except StoreError as error:
            await self._after_outage(error)
            return
        finally:
            services.liveness.suspend("drawing")
        if turn != MESSAGES:
            return
        if (poll := self._next_poll()) is None:
            await self._wait_for_one()
        else:
            self._start_receive(poll, free)

    def _next_poll(self) -> Poll | None:
        """Return the queue to receive from next; None: a receive would hardly help."""
        room = self._max_active - self.active_count() - self.reserved_slots
        unknown = self.services.intake.notes.unknown_in_a_row
        return self.polls.next(0 if unknown else room)

    async def _wait_for_one(self) -> None:
        """Wait until one receive has ended, or a chunk without a message may start."""
        wake = self.services.intake.next_chunks.wake
        woken: asyncio.Task[Any] = asyncio.create_task(wake.wait())
        try:
            await self._wait_for(woken, *self._tasks)
        finally:
            woken.cancel()

    async def _wait_for(self, *tasks: asyncio.Task[Any]) -> None:
        """Wait until one task has ended, and raise the error of a failed receive."""
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        self._forget(done)

    def _forget(self, done: set[asyncio.Task[Any]]) -> None:
        """Forget receives that have ended, and raise the error of a failed one."""
        self._tasks -= done
        for task in done:
            task.result()

    def _start_receive(self, poll: Poll, free: int) -> None:
        """Start a receive and reserve its slots."""
        longest_s = 0 if self.draws.has_chunks else receive_wait_s(self.services.rt)
        wait_s = self.polls.wait_s(longest_s, self._max_active) if longest_s else 0
        room = 0 if self.services.intake.notes.unknown_in_a_row else self.ahead.room()
        most = self.polls.begin(poll, free + room, wait_s)
        slots = min(most, free)
        self.reserved_slots += slots
        receive = self._receive(poll, most, wait_s, slots)
        self._tasks.add(asyncio.create_task(receive))

    async def _receive(self, poll: Poll, most: int, wait_s: int, slots: int) -> None:
        """Receive once, and start the work on each message."""
        rt, liveness = self.services.rt, self.services.liveness
        liveness.expect_within("receiving", REQUEST_S + wait_s)
        deliveries: list[Delivery] = []
        try:
            deliveries = await rt.work.receive(
                most, of=poll.queue, wait_s=wait_s, hide_s=rt.settings.unclaimed_s
            )
        except PieceworkError as error:
            await self._after_outage(error)
        finally:
            self.polls.end(poll, len(deliveries), wait_s)
            self.reserved_slots -= slots
            self.slot_freed.set()
            if not self.polls.in_flight:
                liveness.suspend("receiving")
        self.draws.received(poll.queue, len(deliveries))
        if self.stop.is_set():
            with suppress(PieceworkError):  # they show again by themselves, later
                await rt.work.hide([delivery.receipt for delivery in deliveries], 0)
            return
        if deliveries:
            self.services.message_received.set()
            self.services.calls.breakers.prefetch()
        for delivery in deliveries:
            self.take(delivery)

    async def _after_outage(self, error: PieceworkError) -> None:
        """Wait for a moment after a request failed."""
        log = self.services.log
        if isinstance(error, StoreError):
            self.services.exhaustion.note(error)
        telemetry.emit(log, "worker.receive_failed", error_code=error.code)
        await asyncio.sleep(OUTAGE_S)

    async def free_slots(self) -> int:
        """Wait for a free slot, then briefly for a batch; return their number."""
        while self.is_full() and not self.stop.is_set():
            self.slot_freed.clear()
            await self.slot_freed.wait()
        most = self._max_active - self.reserved_slots
        if self.ahead.room():
            return max(1, most - self.active_count())
        self.wake_at = most - min(BATCH, most)
        if self.active_count() > self.wake_at:
            self.slot_freed.clear()
            late = asyncio.get_running_loop().call_later(GATHER_S, self.slot_freed.set)
            await self.slot_freed.wait()
            late.cancel()
        self.wake_at = inf
        return max(1, most - self.active_count())

    def pause(self, *, on: bool) -> None:
        """Pause or resume the intake of new chunks."""
        if on is not self.paused:
            self.paused = on
            self.slot_freed.set()

    def is_full(self) -> bool:
        """Return whether the worker takes no new chunk now.

        The receives in flight may fill the slots that they have reserved.
        """
        paused = self.paused or self.services.stages.exclusive.wanted
        taken = self.active_count() + self.reserved_slots
        return bool(paused) or taken >= self._max_active

    def take(self, each: Delivery | Drawn) -> None:
        """Start a message, or a drawn chunk, or let it wait for the next free slot."""
        self.ahead.add(each)
        self._start_waiting()

    def _start_waiting(self) -> None:
        while self.ahead and not self.is_full() and not self.stop.is_set():
            self.ahead.start_next()

    def on_task_done(self) -> None:
        """Count an end, and use its slot."""
        self.ahead.note_end()
        self.on_slot_freed()

    def on_slot_freed(self) -> None:
        """Start what waits; or wake the wait for slots once few tasks are active."""
        self._start_waiting()
        if self.active_count() <= self.wake_at:
            self.slot_freed.set()

    @property
    def _max_active(self) -> int:
        return self.services.rt.settings.max_chunks
