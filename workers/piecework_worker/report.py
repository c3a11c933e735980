"""Report that the worker lives, for operators: what it can run, and how busy it is.

A worker with chunks reports every 20 seconds, an idle one every minute. So an operator
learns soon that no worker can run a job, and an idle fleet costs next to nothing.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from piecework import telemetry
from piecework.domain.rows import worker_of
from piecework.errors import StoreError
from piecework.store.workers import WorkerReports
from piecework_worker.siblings import Siblings
from piecework_worker.worker import Worker

#: Seconds between two reports of a worker with chunks, and of an idle one.
BUSY_S = 20.0
IDLE_S = 60.0
#: Seconds between two checks whether an idle worker has become busy.
POLL_S = 5.0


async def report_until(
    worker: Worker, stop: asyncio.Event, siblings: Siblings | None = None
) -> None:
    """Report at intervals until the stop, then report the stop.

    The report is of all processes of the worker.

    A report that fails is logged and repeated at the next poll, before it is late.
    """
    services, siblings = worker.services, siblings or Siblings()
    rt = services.rt
    reports = WorkerReports(rt.table, worker_of(services.worker), rt.clock)
    now = asyncio.get_running_loop().time
    due, was_busy = now(), False
    while not stop.is_set():
        in_progress = worker.lease_count() + siblings.in_progress
        busy = in_progress > 0
        if now() >= due or (busy and not was_busy):
            interval = BUSY_S if busy else IDLE_S
            due, was_busy = now() + interval, busy
            try:
                await reports.report(
                    {
                        name: services.intake.code_version(name)
                        for name in services.intake.pipelines
                    },
                    services.intake.queues,
                    services.calls.breakers.called | siblings.called,
                    max_chunks=rt.settings.max_chunks * siblings.count,
                    in_progress=in_progress,
                    lease_s=rt.settings.lease_s,
                    due_in_s=interval,
                )
            except StoreError as error:
                log, code = services.log, error.code
                telemetry.emit(log, "worker.report_failed", error_code=code)
                due = now()
        with suppress(TimeoutError):
            async with asyncio.timeout(POLL_S):
                await stop.wait()
    with suppress(StoreError):
        await reports.stop()
