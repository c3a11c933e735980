"""Protect the process from what stages do: forks, exceptions, garbage.

A stage may fork: `multiprocessing` does, and ends its processes by SIGTERM. A fork
inherits our handlers, which would not end it. It also inherits asyncio's wakeup pipe,
through which a signal to the fork would stop the worker.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

T = TypeVar("T")

#: The signals that stop a worker. A terminal that closes sends SIGHUP.
OURS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def ignore_signals_in_forks() -> None:
    """Register the fork hooks that restore the default signal handling in each fork."""
    os.register_at_fork(
        before=block, after_in_parent=unblock, after_in_child=as_at_the_start
    )


def as_at_the_start() -> None:
    """Remove our handlers and asyncio's wakeup pipe from this process."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    unblock()


def block() -> None:
    """Block signals: one may arrive before the fork has removed our handlers."""
    signal.pthread_sigmask(signal.SIG_BLOCK, OURS)


def unblock() -> None:
    """Unblock signals, which delivers the pending ones."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, OURS)


# ── run the event loop to the end of the process's own work ───────────────────
#
# asyncio ends the loop when any task raises KeyboardInterrupt or SystemExit. A stage
# may start such a task. The task keeps its exception for the code that awaits it, so
# the loop goes on. A signal raises no KeyboardInterrupt: both processes handle SIGINT.


def run_to_end(runner: asyncio.Runner, work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end, and return its value or raise its exception."""
    loop = runner.get_loop()
    task = loop.create_task(work)
    while True:
        try:
            return loop.run_until_complete(task)
        except (KeyboardInterrupt, SystemExit):
            if task.done():
                raise


# ── run the garbage collector less often ──────────────────────────────────────
#
# Thousands of calls may wait for a slot, and modules live as long as the process.
# Scanning all of them repeatedly takes a sixth of a call's CPU.

#: Net new objects that trigger a scan of the youngest generation. A few chunks that
#: have just started make calls with fewer objects.
GC_THRESHOLD: Final = 10_000


def tune_gc() -> None:
    """Exclude all current objects from collection; call it right after the start."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD, *gc.get_threshold()[1:])
