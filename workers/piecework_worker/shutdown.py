"""Stop a worker on a signal, log the signal, and end the process."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time
from collections.abc import Callable

import structlog

from piecework import telemetry
from piecework_worker.ecs import current_task
from piecework_worker.isolation.process import MEGABYTE, RESIDENT, memory_used
from piecework_worker.process_tuning import ignore_signals_in_forks

#: Seconds that a stopped worker waits for its threads.
THREADS_S = 1.0


class Stop(asyncio.Event):
    """Set when the worker must stop; `signal` names the signal, if there was one."""

    signal: str = ""


def stop_on_signals() -> Stop:
    """Return an event that SIGTERM or SIGINT sets; a second signal ends the process.

    After a second signal, other workers claim the chunks when their leases expire.
    """
    stop = Stop()
    ignore_signals_in_forks()

    def signalled(number: signal.Signals) -> None:
        if stop.signal:
            os._exit(128 + number)
        stop.signal = number.name
        stop.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, signalled, number)
    return stop


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


def exit_despite_threads(code: int, log: telemetry.Log) -> None:
    """End the process although a thread still runs, which Python would wait for.

    The chunk of that thread is released already, so its function must not run on beside
    the
    chunk's new owner.
    """
    here, until = threading.current_thread(), time.monotonic() + THREADS_S
    others = [t for t in threading.enumerate() if t is not here and not t.daemon]
    for thread in others:
        thread.join(max(0.0, until - time.monotonic()))
    left = sum(thread.is_alive() for thread in others)
    if left:
        telemetry.emit(log, "worker.threads_left", count=left)
        kind, error, trace = sys.exc_info()
        if kind is not None and error is not None:  # nothing reports it after the exit
            sys.excepthook(kind, error, trace)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


# ── stop a worker that uses too much memory ───────────────────────────────────

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
