"""Model a process of the simulated world: it runs, freezes and dies as a unit."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass, field
from math import inf
from typing import Any

from piecework_simulation.engine.callbacks import Callback


@dataclass(slots=True, eq=False)
class Process:
    """A simulated process.

    Attributes:
        offset: Seconds by which its wall clock is wrong.
        thawed_at: The moment at which it went on after a freeze.
        frozen_until: The moment at which its last freeze ends.
        fuse: Callbacks until a fault happens to it; 0: none will.
        tenant: The tenant that a command acts for; empty: it serves all.
        on_death: Called in the world's context once the process has ended.
        on_blocked: Called as the watchdog of a worker, with the pipeline and the stage
            that blocked its event loop.
    """

    name: str
    tenant: str = ""
    offset: float = 0.0
    fuse: int = 0
    dead: bool = False
    frozen: bool = False
    thawed_at: float = -inf
    frozen_until: float = -inf
    on_death: Callable[[], None] = lambda: None
    on_blocked: Callable[[str, str], None] = lambda *_: None
    ready: deque[Callback] = field(default_factory=deque)
    #: Kept until the end: a task that is collected would run its `finally` blocks.
    tasks: list[asyncio.Task[Any]] = field(default_factory=list)


PROCESS: ContextVar[Process] = ContextVar("PROCESS")


def context_of(process: Process) -> Context:
    """Return the surroundings in which the callbacks of a process run."""
    context = copy_context()
    context.run(PROCESS.set, process)
    return context
