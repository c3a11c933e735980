"""Stop a worker that has grown too large, so that a fresh one takes its place."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from piecework import telemetry
from workers.isolation.address_space import MEGABYTE, RESIDENT, memory_used

#: The exit code of a worker that stopped because it was full.
MEMORY_LIMIT_EXIT_CODE = 8
#: Seconds between two looks.
POLL_S = 1.0


async def stop_at_memory_limit(
    limit_mb: int,
    stop: asyncio.Event,
    log: structlog.stdlib.BoundLogger,
    resident: Callable[[], int] = lambda: memory_used(RESIDENT),
) -> int:
    """Wait for a stop, and be the one who stops if the limit (0: none) is passed first.

    Return the exit code that the worker's end has.
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
