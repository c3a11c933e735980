"""Run a reconciler as a process of its own: with a health file, until SIGTERM."""

from __future__ import annotations

import asyncio
import signal

import structlog

from piecework.health import Liveness, write_health_file
from piecework.reconciler.loop import reconcile_for_ever
from piecework.runtime import Runtime


async def reconcile_until_stopped(
    rt: Runtime, log: structlog.stdlib.BoundLogger
) -> None:
    """Reconcile until SIGTERM, which may interrupt any write without harm."""
    stop, liveness, settings = asyncio.Event(), Liveness(), rt.settings
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    tasks = [
        asyncio.create_task(reconcile_for_ever(rt, log, liveness=liveness)),
        asyncio.create_task(
            write_health_file(liveness, settings.health_file, settings.lease_s, log)
        ),
    ]
    try:
        await stop.wait()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
