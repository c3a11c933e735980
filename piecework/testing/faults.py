"""The faults that a test injects into a run in memory, each a number of times.

A kill is the death of the worker. What was not stored is lost, and no attempt is spent.
The chunk starts again from its checkpoints and its journal, as after a takeover.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault at one place of each chunk.

    Attributes:
        place: A stage, when its value is about to be stored. Or a function, when it has
            been called or is about to be called.
        name: The name of the stage or of the function.
        times: How often the fault happens in a chunk.
        error: What a failing function raises; None: the worker is killed.
    """

    place: Literal["after stage", "in call", "before call"]
    name: str
    times: int = 1
    error: Exception | None = None


def killed_after(stage: str, times: int = 1) -> Fault:
    """Kill the worker when a stage has returned, before its value is stored."""
    return Fault("after stage", stage, times)


def killed_in(function: str, times: int = 1) -> Fault:
    """Kill the worker when a called function has returned, before that is stored."""
    return Fault("in call", function, times)


def failing(function: str, error: Exception, times: int = 1) -> Fault:
    """Let a called function raise an error instead of being executed."""
    return Fault("before call", function, times, error)


def never_happened(faults: Sequence[Fault]) -> str:
    """Return a sentence about faults that happened in no chunk of a run."""
    named = ", ".join(f"{fault.place} {fault.name!r}" for fault in faults)
    return f"These faults never happened, so the run proves nothing: {named}."


@dataclass(slots=True)
class ChunkFaults:
    """The faults of one chunk, and which of them have happened."""

    faults: Sequence[Fault] = ()
    happened: Counter[Fault] = field(default_factory=Counter)
    #: The task of the present attempt, which stands for the worker.
    worker: asyncio.Task[Any] | None = None
    killed: bool = False

    def due(self, place: str, name: str) -> Fault | None:
        """Return the fault that happens at a place now, and count it."""
        for fault in self.faults:
            here = (fault.place, fault.name) == (place, name)
            # Equal faults of a run add up: they are one key of `happened`.
            if here and self.happened[fault] < fault.times * self.faults.count(fault):
                self.happened[fault] += 1
                return fault
        return None

    async def kill_if_due(self, place: str, name: str) -> None:
        """Kill the worker here if a fault says so: nothing after this is executed."""
        if self.due(place, name) is None:
            return
        self.killed = True
        for task in {self.worker, asyncio.current_task()}:
            if task is not None:
                task.cancel()
        await asyncio.sleep(0)  # raises the cancellation
