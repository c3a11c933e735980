"""Stop: let what is in hand end, hand back what does not end in time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from piecework import telemetry
from workers.heart import InterruptReason
from workers.station import WorkerServices

if TYPE_CHECKING:
    from workers.worker import Worker

#: Seconds between two looks at what a stopping worker still has in hand.
LOOK_S = 0.1
#: Seconds for writing what a stop cut off, and then for counting what has ended.
HAND_BACK_S = 5.0
COUNT_S = 2.0
#: Seconds from the end of the drain to that of the process, whatever it had in hand:
#: `shutdown_grace_s` plus this must be less than the platform's `stopTimeout`.
END_S = HAND_BACK_S + COUNT_S + 2.0


async def drain(worker: Worker, receiving: asyncio.Task[None]) -> None:
    """Let what is in hand end; hand back what does not end in time."""
    services, in_hand = worker.services, worker.in_hand
    telemetry.emit(services.log, "worker.stopping", in_progress=len(in_hand))
    worker.receiver.freed.set()
    now = asyncio.get_running_loop().time
    until = now() + services.rt.settings.shutdown_grace_s
    while (left := until - now()) > 0 and (in_hand or not receiving.done()):
        hand_back_late(services, until)
        waits = {receiving, *in_hand}
        await asyncio.wait(waits, timeout=min(left, LOOK_S))
    worker.closing = True
    until = now() + HAND_BACK_S
    while (left := until - now()) > 0 and in_hand:
        # Again and again: a claim may have been on its way.
        for lease in list(services.lease_renewer.leases.values()):
            lease.interrupt(InterruptReason.STOPPING)
        await asyncio.wait(in_hand, timeout=min(left, LOOK_S))
    try:
        async with asyncio.timeout(COUNT_S):
            await worker.acks.flush()
    except TimeoutError:
        telemetry.emit(services.log, "acks.failed", error="TimeoutError")


def hand_back_late(services: WorkerServices, until: float) -> None:
    """Hand back at once the chunks whose stages take longer than there is time."""
    now = asyncio.get_running_loop().time()
    for token, under_way in services.under_way.items():
        if not services.stage_durations.fits(under_way, now, until):
            services.lease_renewer.leases[token].interrupt(InterruptReason.STOPPING)
