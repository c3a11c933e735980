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
from workers.station import WorkerServices, poll_seconds

#: Receives under way at once.
AT_ONCE = 2
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
    in_hand: Callable[[], int]
    begin: Callable[[Delivery], None]
    freed: asyncio.Event = field(default_factory=asyncio.Event)
    few: float = inf
    under_way: int = 0
    asked: int = 0
    plenty: bool = False
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def run(self) -> None:
        """Take messages as long as there are free slots, until told to stop.

        A long poll under way is never cut off: SQS would hand its messages to nobody,
        and hide them all the same. What it brings after the stop goes straight back.
        """
        try:
            while not self.stop.is_set():
                if self._tasks and not self._may_begin_another():
                    await self._one_done()
                    continue
                free = await self.free_slots()
                if not self.stop.is_set() and not self.services.intake_paused:
                    self._begin(min(free, BATCH))
            while self._tasks:
                await self._one_done()
        finally:
            for task in self._tasks:
                task.cancel()
            if self._tasks:
                await asyncio.wait(self._tasks)

    def _may_begin_another(self) -> bool:
        """Say whether a receive beside the others is sure to come back full."""
        room = self._most - self.in_hand() - self.asked
        return self.plenty and room >= BATCH and len(self._tasks) < AT_ONCE

    async def _one_done(self) -> None:
        """Wait until a receive is over; raise what ended it, if anything did."""
        first = asyncio.FIRST_COMPLETED
        done, self._tasks = await asyncio.wait(self._tasks, return_when=first)
        for task in done:
            task.result()

    def _begin(self, most: int) -> None:
        """Begin a receive; from now on the slots are its own."""
        self.under_way += 1
        self.asked += most
        self._tasks.add(asyncio.create_task(self._receive(most)))

    async def _receive(self, most: int) -> None:
        """Receive once, and take what came in hand."""
        rt, liveness = self.services.rt, self.services.liveness
        wait_s = poll_seconds(rt)
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
            self.under_way -= 1
            self.asked -= most
            self.freed.set()
            if not self.under_way:
                liveness.suspend("receiving")
        self.plenty = len(deliveries) == BATCH
        if self.stop.is_set():
            with suppress(PieceworkError):  # they show again by themselves, later
                await rt.work.hide([delivery.receipt for delivery in deliveries], 0)
            return
        if deliveries:
            self.services.busy.set()
            self.services.breakers.prefetch()
        for delivery in deliveries:
            self.begin(delivery)

    async def free_slots(self) -> int:
        """Wait until there is a free slot, and a moment for a batch's worth of them."""
        while (self.full() or self._all_asked()) and not self.stop.is_set():
            self.freed.clear()
            await self.freed.wait()
        most = self._most - self.asked
        self.few = most - min(BATCH, most)
        if self.in_hand() > self.few:
            self.freed.clear()
            late = asyncio.get_running_loop().call_later(GATHER_S, self.freed.set)
            await self.freed.wait()
            late.cancel()
        self.few = inf
        return max(1, most - self.in_hand())

    def full(self) -> bool:
        """Say whether to take nothing in hand for now."""
        return self.services.intake_paused or self.in_hand() >= self._most

    def _all_asked(self) -> bool:
        """Say whether a receive under way may fill each slot that is free."""
        return self.in_hand() + self.asked >= self._most

    def one_less(self) -> None:
        """Wake who waits for slots, or for several once so few are in hand."""
        if self.in_hand() <= self.few:
            self.freed.set()

    @property
    def _most(self) -> int:
        return self.services.rt.settings.max_chunks
