"""A process that is out of memory, disk space, handles, threads or processes.

A thread or a process that cannot be started raises an error of a common type. So the
place decides, not the text.
"""

from __future__ import annotations

import errno
import threading
from types import FrameType
from typing import Final

from piecework.errors.verdict import Verdict

#: The code of a worker that ran out of memory, disk, handles, threads or processes.
EXHAUSTED_CODE: Final = "runtime.worker.exhausted"
#: The functions that start a process, by the names in the code that calls them.
_FORKS: Final = frozenset(
    {"_fork_exec", "fork", "fork_exec", "forkpty", "posix_spawn", "posix_spawnp"}
)


_EXHAUSTED: Final = frozenset(
    {
        errno.EDQUOT,
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOBUFS,
        errno.ENOMEM,
        errno.ENOSPC,
    }
)


def from_exhaustion(
    error: BaseException, _layer: str, _now: float | None
) -> Verdict | None:
    """Classify an error of a process that lacks what any process needs."""
    return Verdict(EXHAUSTED_CODE) if lacks_resources(error) else None


def lacks_resources(error: BaseException) -> bool:
    """Return whether the process lacks memory, disk, handles, threads or processes."""
    if isinstance(error, MemoryError):
        return True
    if isinstance(error, OSError) and error.errno in _EXHAUSTED:
        return True
    no_thread = isinstance(error, RuntimeError) and _starts_thread(_raised_in(error))
    no_process = isinstance(error, OSError) and error.errno == errno.EAGAIN
    return no_thread or (no_process and _starts_process(_raised_in(error)))


def _starts_thread(frame: FrameType | None) -> bool:
    """Return whether a frame was starting a thread that has not begun."""
    if frame is None or frame.f_code is not threading.Thread.start.__code__:
        return False
    # A thread that was started twice has a number; one without `__init__` has no slot.
    return getattr(frame.f_locals.get("self"), "_ident", 0) is None


def _starts_process(frame: FrameType | None) -> bool:
    return frame is not None and bool(_FORKS & set(frame.f_code.co_names))


def _raised_in(error: BaseException) -> FrameType | None:
    """Return the frame that raised an error; None: it was not raised in Python."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return None if trace is None else trace.tb_frame
