"""Stop a worker that has grown too large, so that a fresh one takes its place."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from piecework import telemetry
from workers.isolation.address_space import MEGABYTE, RESIDENT, memory_used

#: The exit code of a worker that stopped because it was full.
FULL = 8
#: Seconds between two looks.
LOOK_S = 1.0


async def stop_when_full(
    limit_mb: int,
    stop: asyncio.Event,
    log: structlog.stdlib.BoundLogger,
    resident: Callable[[], int] = lambda: memory_used(RESIDENT),
) -> int:
    """Wait for a stop, and be the one who stops if the limit (0: none) is passed first.

    Return the exit code that the worker's end has.
    """
    while limit_mb and not stop.is_set():
        has_mb = resident() // MEGABYTE
        if has_mb > limit_mb:
            telemetry.emit(
                log, "worker.memory_limit", memory_mb=has_mb, limit_mb=limit_mb
            )
            stop.set()
            return FULL
        try:
            async with asyncio.timeout(LOOK_S):
                await stop.wait()
        except TimeoutError:
            continue
    await stop.wait()
    return 0
