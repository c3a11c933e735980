"""Refuse every attempt to reach the real network or start a process.

A coroutine uses the loop, which refuses. A blocking client uses system calls; only
Python's audit events report them in time.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, NoReturn

from piecework.errors import PermanentError, PieceworkError

#: The error code of a call that uses the real network.
NETWORK_REFUSED = "pipeline.simulation.out_of_reach"
#: The first audit event of each blocking operation. Creating a socket is harmless.
BLOCKING_EVENTS = {
    "socket.connect",
    "socket.getaddrinfo",
    "socket.gethostbyname",
    "socket.sendto",
    "subprocess.Popen",
    "os.system",
    "os.posix_spawn",
}


def refuse_network() -> NoReturn:
    """Raise; otherwise each schedule would call a real provider and pay for it."""
    message = "A function tried to use the network, which the simulator does not have."
    raise PermanentError(message, code=NETWORK_REFUSED)


@cache
def refuse_blocking_io(loop_type: type[asyncio.AbstractEventLoop]) -> None:
    """Refuse blocking operations, too, while a loop of this type runs.

    Python cannot remove an audit hook.
    """

    def hook(event: str, _: Any) -> None:
        running = asyncio._get_running_loop()  # noqa: SLF001 -- None without a loop
        if event in BLOCKING_EVENTS and isinstance(running, loop_type):
            refuse_network()

    sys.addaudithook(hook)


# ── logger that writes nothing ────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Log:
    """The part of a structlog logger that the real code uses.

    Attributes:
        unexpected: Called with each unexpected error.
        note: Called with each warning and error.
    """

    unexpected: Callable[[str], None]
    note: Callable[[str], None]

    def bind(self, **_: Any) -> Log:
        """Return this logger; bound facts are not recorded."""
        return self

    def debug(self, *_: Any, **__: Any) -> None:
        """Write nothing."""

    info = debug

    def warning(self, event: str = "", **facts: Any) -> None:
        """Note a warning in the trace."""
        text = " ".join(f"{name}={facts[name]}" for name in sorted(facts))
        self.note(f"{event} {text}")

    error = warning

    def exception(self, event: str = "", **_: Any) -> None:
        """Record an error as a violation if it is not a PieceworkError."""
        found = sys.exc_info()[1]
        if not isinstance(found, PieceworkError):
            self.unexpected(f"{event}: {found!r}")
        self.note(f"{event}: {found!r}")
