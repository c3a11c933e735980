"""Log the signal that stops a worker; stop a worker that uses too much memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

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

#: The share of the memory that it has at which a worker stops. A stage may use more
#: until the next measurement.
STOP_SHARE = 0.75
#: The files with the limit of a container: of cgroup 2, and of cgroup 1.
CGROUP_LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
#: Megabytes that no task has: cgroup 1 writes such a number if there is no limit.
MOST_MB = 1 << 24
#: Exit code of a worker that stopped at its memory limit.
MEMORY_LIMIT_EXIT_CODE = 8
#: Seconds between two measurements.
POLL_S = 1.0


def stop_limit_mb(
    set_mb: int,
    task_mb: int,
    cgroup_limits: Sequence[Path] = CGROUP_LIMITS,
    *,
    share: int = 1,
) -> int:
    """Return the megabytes at which a worker stops; 0: it has no limit.

    That is the setting, or else a part of the memory of its ECS task and container,
    which `share` processes have together.
    """
    if set_mb:
        return set_mb
    found = [task_mb]
    for path in cgroup_limits:
        with suppress(OSError, ValueError):  # no such file, or "max"
            found.append(int(path.read_text()) // MEGABYTE)
    known = [mb for mb in found if 0 < mb < MOST_MB]
    return int(min(known, default=0) * STOP_SHARE / share)


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
