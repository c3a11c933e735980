"""Stop a worker that uses too much memory, so that a new one replaces it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from piecework import telemetry
from workers.isolation.address_space import MEGABYTE, RESIDENT, memory_used

#: Exit code of a worker that stopped at its memory limit.
MEMORY_LIMIT_EXIT_CODE = 8
#: Seconds between two measurements.
POLL_S = 1.0


async def stop_at_memory_limit(
    limit_mb: int,
    stop: asyncio.Event,
    log: structlog.stdlib.BoundLogger,
    resident: Callable[[], int] = lambda: memory_used(RESIDENT),
) -> int:
    """Set `stop` once the process uses more than `limit_mb` megabytes (0: no limit).

    Return after the stop, by this limit or otherwise, with the worker's exit code.
    """
    while limit_mb and not stop.is_set():
        used_mb = resident() // MEGABYTE
        if used_mb > limit_mb:
            telemetry.emit(
                log, "worker.memory_limit", memory_mb=used_mb, limit_mb=limit_mb
            )
            stop.set()
            return MEMORY_LIMIT_EXIT_CODE
        try:
            async with asyncio.timeout(POLL_S):
                await stop.wait()
        except TimeoutError:
            continue
    await stop.wait()
    return 0
