"""Receive: as many messages as there are free slots, two batches at once if need be.

One receive brings ten messages at the most. While they come full, and there is room for
another ten, a second is under way beside the first, so that the way to SQS and back is
no limit. A queue that has less than that is asked by one at a time: an idle worker
makes one long poll after the other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf

from piecework import telemetry
from piecework.errors import PieceworkError
from piecework.pulse import REQUEST_S
from piecework.queue import BATCH, Delivery
from workers.station import WorkerServices, receive_wait_s

#: Receives under way at once.
MAX_RECEIVES = 2
#: Seconds to wait for more free slots before asking for fewer messages than SQS would
#: give: ten messages cost as much as one.
GATHER_S = 0.02
#: Seconds to wait after SQS could not be reached.
OUTAGE_S = 1.0


@dataclass(slots=True)
class Receiver:
    """The receives of one worker, and the slots that they are to fill.

    Attributes:
        in_hand: How much the worker has in hand.
        begin: Takes a message in hand.
        freed: Set when there may be a free slot.
        few: How much may be in hand once who waits for several slots is woken.
        under_way: How many receives are.
        asked: The slots that they may fill.
        plenty: The last one brought as much as one can.
    """

    services: WorkerServices
    stop: asyncio.Event
    active_count: Callable[[], int]
    on_message: Callable[[Delivery], None]
    slot_freed: asyncio.Event = field(default_factory=asyncio.Event)
    wake_at: float = inf
    receives_in_flight: int = 0
    reserved_slots: int = 0
    last_was_full: bool = False
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def run(self) -> None:
        """Take messages as long as there are free slots, until told to stop.

        A long poll under way is never cut off: SQS would hand its messages to nobody,
        and hide them all the same. What it brings after the stop goes straight back.
        """
        try:
            while not self.stop.is_set():
                if self._tasks and not self._can_add_receive():
                    await self._wait_for_one()
                    continue
                free = await self.free_slots()
                if not self.stop.is_set() and not self.services.intake_paused:
                    self._start_receive(min(free, BATCH))
            while self._tasks:
                await self._wait_for_one()
        finally:
            for task in self._tasks:
                task.cancel()
            if self._tasks:
                await asyncio.wait(self._tasks)

    def _can_add_receive(self) -> bool:
        """Say whether a receive beside the others is sure to come back full."""
        room = self._max_active - self.active_count() - self.reserved_slots
        return self.last_was_full and room >= BATCH and len(self._tasks) < MAX_RECEIVES

    async def _wait_for_one(self) -> None:
        """Wait until a receive is over; raise what ended it, if anything did."""
        first = asyncio.FIRST_COMPLETED
        done, self._tasks = await asyncio.wait(self._tasks, return_when=first)
        for task in done:
            task.result()

    def _start_receive(self, most: int) -> None:
        """Begin a receive; from now on the slots are its own."""
        self.receives_in_flight += 1
        self.reserved_slots += most
        self._tasks.add(asyncio.create_task(self._receive(most)))

    async def _receive(self, most: int) -> None:
        """Receive once, and take what came in hand."""
        rt, liveness = self.services.rt, self.services.liveness
        wait_s = receive_wait_s(rt)
        liveness.expect_within("receiving", REQUEST_S + wait_s)
        deliveries: list[Delivery] = []
        try:
            deliveries = await rt.work.receive(
                most, wait_s=wait_s, hide_s=rt.settings.visibility_s
            )
        except PieceworkError as error:
            telemetry.emit(
                self.services.log, "worker.receive_failed", error_code=error.code
            )
            await asyncio.sleep(OUTAGE_S)
        finally:
            self.receives_in_flight -= 1
            self.reserved_slots -= most
            self.slot_freed.set()
            if not self.receives_in_flight:
                liveness.suspend("receiving")
        self.last_was_full = len(deliveries) == BATCH
        if self.stop.is_set():
            with suppress(PieceworkError):  # they show again by themselves, later
                await rt.work.hide([delivery.receipt for delivery in deliveries], 0)
            return
        if deliveries:
            self.services.message_received.set()
            self.services.breakers.prefetch()
        for delivery in deliveries:
            self.on_message(delivery)

    async def free_slots(self) -> int:
        """Wait until there is a free slot, and a moment for a batch's worth of them."""
        while (self.is_full() or self._all_slots_reserved()) and not self.stop.is_set():
            self.slot_freed.clear()
            await self.slot_freed.wait()
        most = self._max_active - self.reserved_slots
        self.wake_at = most - min(BATCH, most)
        if self.active_count() > self.wake_at:
            self.slot_freed.clear()
            late = asyncio.get_running_loop().call_later(GATHER_S, self.slot_freed.set)
            await self.slot_freed.wait()
            late.cancel()
        self.wake_at = inf
        return max(1, most - self.active_count())

    def is_full(self) -> bool:
        """Say whether to take nothing in hand for now."""
        return self.services.intake_paused or self.active_count() >= self._max_active

    def _all_slots_reserved(self) -> bool:
        """Say whether a receive under way may fill each slot that is free."""
        return self.active_count() + self.reserved_slots >= self._max_active

    def on_task_done(self) -> None:
        """Wake who waits for slots, or for several once so few are in hand."""
        if self.active_count() <= self.wake_at:
            self.slot_freed.set()

    @property
    def _max_active(self) -> int:
        return self.services.rt.settings.max_chunks
