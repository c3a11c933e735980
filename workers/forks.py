"""A fork of this process heeds its own signals, and tells us nothing of them.

A stage may fork: `multiprocessing` does, and ends its processes by SIGTERM. They would
have our handlers, which do not end them, and asyncio's pipe, by which a signal for a
fork would stop the worker.
"""

from __future__ import annotations

import os
import signal

OURS = (signal.SIGTERM, signal.SIGINT)


def ignore_signals_in_forks() -> None:
    """See to it that each fork has the signals of a program that has just started."""
    os.register_at_fork(
        before=block, after_in_parent=unblock, after_in_child=as_at_the_start
    )


def as_at_the_start() -> None:
    """Take our handlers and asyncio's pipe away from this process."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    unblock()


def block() -> None:
    """Let signals wait: one may come before the fork is rid of our handlers."""
    signal.pthread_sigmask(signal.SIG_BLOCK, OURS)


def unblock() -> None:
    """Take the signals that have waited, and those to come."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, OURS)
