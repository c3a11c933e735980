"""How a worker is told to stop, what it says of it, and how its process ends then."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time

from piecework import telemetry
from workers.ecs.task import current_task
from workers.forks import ignore_signals_in_forks

#: Seconds that a finished worker gives its threads.
THREADS_S = 1.0


class Stop(asyncio.Event):
    """Set once the worker is to stop, with the signal that said so, if one did."""

    signal: str = ""


def stop_on_signals() -> Stop:
    """Return an event that SIGTERM or SIGINT sets; a second signal ends it all at once.

    What is in hand then is taken over after its lease, as after any death.
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
    """Say in the log which signal stops the worker, and whether ECS ends the task.

    ECS does not tell a task why it ends it; the reason stands on the stopped task, for
    those who look at it from outside.
    """
    await stop.wait()
    if not stop.signal:
        return
    task = await current_task(metadata, log)
    status = task.desired_status if task else None
    telemetry.emit(log, "worker.signalled", signal=stop.signal, desired_status=status)


def exit_despite_threads(code: int, log: telemetry.Log) -> None:
    """End the process here if a function in a thread goes on, which Python waits for.

    What it was at has been handed back; the less it goes on beside whoever has it now,
    the better.
    """
    here, until = threading.current_thread(), time.monotonic() + THREADS_S
    others = [t for t in threading.enumerate() if t is not here and not t.daemon]
    for thread in others:
        thread.join(max(0.0, until - time.monotonic()))
    left = sum(thread.is_alive() for thread in others)
    if left:
        telemetry.emit(log, "worker.threads_left", count=left)
        kind, error, trace = sys.exc_info()
        if kind is not None and error is not None:  # after us nobody tells of it
            sys.excepthook(kind, error, trace)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
