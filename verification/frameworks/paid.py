"""The paid steps of the agents: a book of their starts, and the kill in one of them.

AGENT_BOOK       the file with a line for each step that starts
AGENT_KILLED_IN  the step in which the run dies
AGENT_RUN        the process of the run; a stage may run in a child of it
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from pathlib import Path

#: The steps of each agent, in their order: three requests and two tools.
STEPS = ("request 1", "search", "request 2", "book", "request 3")
#: Seconds of a step.
STEP_S = 0.02
PATIENCE_S = 300.0


async def pay(step: str, key: str = "") -> None:
    """Start a paid step; kill the run if it is the one."""
    line = f"{step}|{key}\n".encode()
    book = os.open(os.environ["AGENT_BOOK"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(book, line)
    os.close(book)
    if os.environ.get("AGENT_KILLED_IN") == step:
        os.kill(int(os.environ["AGENT_RUN"]), signal.SIGKILL)
        await asyncio.sleep(PATIENCE_S)  # a child dies soon after
    await asyncio.sleep(STEP_S)


def started(book: Path) -> Counter[str]:
    """Return how often each step has started."""
    lines = book.read_text("utf-8").splitlines()
    return Counter(line.partition("|")[0] for line in lines)


def keys(book: Path, step: str) -> set[str]:
    """Return the idempotency keys that the provider of a step has received."""
    words = (line.partition("|") for line in book.read_text("utf-8").splitlines())
    return {key for name, _, key in words if name == step}
