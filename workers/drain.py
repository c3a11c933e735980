"""Stop a worker: wait for chunks that can end in time, and release the others."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from piecework import telemetry
from workers.heart import InterruptReason
from workers.station import WorkerServices

if TYPE_CHECKING:
    from workers.worker import Worker

#: Seconds between two checks of a stopping worker's active tasks.
POLL_S = 0.1
#: Seconds to write the release of interrupted chunks, then to count ended chunks.
RELEASE_S = 5.0
ACK_FLUSH_S = 2.0
#: Seconds from the end of the drain to the exit, whatever was active then:
#: `shutdown_grace_s` plus this must be less than the platform's `stopTimeout`.
SHUTDOWN_MARGIN_S = RELEASE_S + ACK_FLUSH_S + 2.0


async def drain(worker: Worker, receiving: asyncio.Task[None]) -> None:
    """Wait for the active tasks; release each chunk that does not end in time."""
    services, active_tasks = worker.services, worker.active_tasks
    telemetry.emit(services.log, "worker.stopping", in_progress=len(active_tasks))
    worker.receiver.slot_freed.set()
    now = asyncio.get_running_loop().time
    until = now() + services.rt.settings.shutdown_grace_s
    while (seconds_left := until - now()) > 0 and (
        active_tasks or not receiving.done()
    ):
        release_late(services, until)
        waits = {receiving, *active_tasks}
        await asyncio.wait(waits, timeout=min(seconds_left, POLL_S))
    worker.closing = True
    until = now() + RELEASE_S
    while (seconds_left := until - now()) > 0 and active_tasks:
        # Repeat: a claim may have been in flight, so that a new lease appears.
        for lease in list(services.lease_renewer.leases.values()):
            lease.interrupt(InterruptReason.STOPPING)
        await asyncio.wait(active_tasks, timeout=min(seconds_left, POLL_S))
    try:
        async with asyncio.timeout(ACK_FLUSH_S):
            await worker.acks.flush()
    except TimeoutError:
        telemetry.emit(services.log, "acks.failed", error="TimeoutError")


def release_late(services: WorkerServices, until: float) -> None:
    """Release at once each chunk whose stage will not end before `until`."""
    now = asyncio.get_running_loop().time()
    for token, under_way in services.running_stages.items():
        if not services.stage_durations.may_finish_by(under_way, now, until):
            services.lease_renewer.leases[token].interrupt(InterruptReason.STOPPING)
