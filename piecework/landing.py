"""Effects that go on though the stage that waits for them is cut off.

They are about to be undone: one that happened after that would stand for ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

R = TypeVar("R")


@dataclass(slots=True)
class Landing:
    """What is under way, whoever still waits for it."""

    tasks: set[asyncio.Task[Any]] = field(default_factory=set)

    async def to_its_end(
        self, work: Coroutine[Any, Any, R], lets_land: Callable[[], bool]
    ) -> R:
        """Do something; a cut cuts it off too, unless it is to land."""
        task = asyncio.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self._landed)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if not lets_land():
                task.cancel()
                await asyncio.wait([task])
            raise

    def _landed(self, task: asyncio.Task[Any]) -> None:
        self.tasks.discard(task)
        if not task.cancelled():
            task.exception()  # raised where it is waited for; that may be nowhere

    def abandon(self) -> None:
        """Cut off what is still under way."""
        for task in self.tasks:
            task.cancel()
