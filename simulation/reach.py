"""Refuse to reach out of the made-up world, whoever tries and however.

A coroutine asks the loop; a client that blocks asks the system, and only Python's own
audit events tell of it in time.
"""

from __future__ import annotations

import asyncio
import sys
from functools import cache
from typing import Any, NoReturn

from piecework.errors import PermanentError

#: The code of a call that reaches for the true world.
NETWORK_REFUSED = "pipeline.simulation.out_of_reach"
#: What a blocking client does first. A socket that is only made harms nobody.
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
    """Raise: a provider would be asked, and paid, anew in each schedule."""
    message = "A function reached for the network, which the simulator has not."
    raise PermanentError(message, code=NETWORK_REFUSED)


@cache
def refuse_blocking_io(loop_type: type[asyncio.AbstractEventLoop]) -> None:
    """Refuse what blocks, too, while a loop of a kind runs; hooks stay for ever."""

    def hook(event: str, _: Any) -> None:
        running = asyncio._get_running_loop()  # noqa: SLF001 -- None outside a loop
        if event in BLOCKING_EVENTS and isinstance(running, loop_type):
            refuse_network()

    sys.addaudithook(hook)
