"""Let one process at a time have a state file, and tell the others which one it is.

The lock is on a file beside it. SQLite loses its own locks on a file if the process
closes another descriptor of that file.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from piecework.errors import UsageError

#: What the name of the lock ends with.
ENDING = ".lock"


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a state file; remove it afterwards. The system frees a dead one.

    Raises:
        UsageError: `run.state.in_use`.
        OSError: The lock cannot be written.
    """
    place = path.with_name(path.name + ENDING)
    holder = take(place, path)
    try:
        yield
    finally:
        place.unlink(missing_ok=True)  # while it is held: no other process has it open
        os.close(holder)


def take(place: Path, path: Path) -> int:
    """Return the locked descriptor; repeat if its holder has just removed the file."""
    while True:
        holder = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(holder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            other = os.read(holder, 32).decode(errors="replace").strip()
            os.close(holder)
            message = f"Process {other or 'unknown'} has {path} open."
            step = "Wait until it ends, or end it. With --no-state run beside it."
            raise UsageError(message, code="run.state.in_use", next_step=step) from None
        with suppress(FileNotFoundError):
            if os.path.samestat(place.stat(), os.fstat(holder)):
                os.ftruncate(holder, 0)
                os.write(holder, str(os.getpid()).encode())
                return holder
        os.close(holder)
