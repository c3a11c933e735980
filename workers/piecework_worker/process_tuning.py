"""Give a fork of this process default signal handling.

A stage may fork: `multiprocessing` does, and ends its processes by SIGTERM. A fork
inherits our handlers, which would not end it. It also inherits asyncio's wakeup pipe,
through which a signal to the fork would stop the worker.
"""

from __future__ import annotations

import gc
import os
import signal
from typing import Final

OURS = (signal.SIGTERM, signal.SIGINT)


def ignore_signals_in_forks() -> None:
    """Register the fork hooks that restore the default signal handling in each fork."""
    os.register_at_fork(
        before=block, after_in_parent=unblock, after_in_child=as_at_the_start
    )


def as_at_the_start() -> None:
    """Remove our handlers and asyncio's wakeup pipe from this process."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    unblock()


def block() -> None:
    """Block signals: one may arrive before the fork has removed our handlers."""
    signal.pthread_sigmask(signal.SIG_BLOCK, OURS)


def unblock() -> None:
    """Unblock signals, which delivers the pending ones."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, OURS)


# ── run the garbage collector less often ──────────────────────────────────────
#
# Thousands of calls may wait for a slot, and modules live as long as the process.
# Scanning all of them repeatedly takes a sixth of a call's CPU.

#: Net new objects that trigger a scan of the youngest generation: more than the calls
#: of a few chunks that have just started.
GC_THRESHOLD: Final = 10_000


def tune_gc() -> None:
    """Exclude all current objects from collection; call it right after the start."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD, *gc.get_threshold()[1:])
