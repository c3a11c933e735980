"""Log the signal that stops a worker; stop a worker that uses too much memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from piecework import telemetry
from piecework_worker.ecs import current_task
from piecework_worker.isolation.process import MEGABYTE, RESIDENT, memory_used
from piecework_worker.stopping import Stop


async def log_signal(stop: Stop, metadata: str, log: telemetry.Log) -> None:
    """Log which signal stops the worker, and whether ECS is ending the task.

    ECS does not tell a task the reason. The stopped task has it in its description.
    """
    await stop.wait()
    if not stop.signal:
        return
    task = await current_task(metadata, log)
    status = task.desired_status if task else None
    telemetry.emit(log, "worker.signalled", signal=stop.signal, desired_status=status)


# ── stop a worker that uses too much memory ───────────────────────────────────

#: Exit code of a worker that stopped at its memory limit.
MEMORY_LIMIT_EXIT_CODE = 8
#: Seconds between two measurements.
POLL_S = 1.0


async def stop_at_memory_limit(
    limit_mb: int,
    stop: Stop,
    log: structlog.stdlib.BoundLogger,
    resident: Callable[[], int] = lambda: memory_used(RESIDENT),
) -> None:
    """Set `stop` once the process uses more than `limit_mb` megabytes (0: no limit).

    Return after the stop, by this limit or otherwise.
    """
    while limit_mb and not stop.is_set():
        used_mb = resident() // MEGABYTE
        if used_mb > limit_mb:
            telemetry.emit(
                log, "worker.memory_limit", memory_mb=used_mb, limit_mb=limit_mb
            )
            stop.code = MEMORY_LIMIT_EXIT_CODE
            stop.set()
        try:
            async with asyncio.timeout(POLL_S):
                await stop.wait()
        except TimeoutError:
            continue
