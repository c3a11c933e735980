"""Let effects end although the stage that waits for them is cut off.

The chunk is about to be compensated. An effect that happened after its compensation
would never be undone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

R = TypeVar("R")


@dataclass(slots=True)
class EffectDrain:
    """Keeps the effects in flight apart from the stages that wait for them."""

    tasks: set[asyncio.Task[Any]] = field(default_factory=set)

    async def run_to_completion(
        self, work: Coroutine[Any, Any, R], drains: Callable[[], bool]
    ) -> R:
        """Run something; a cancellation stops it too, unless `drains` returns True."""
        task = asyncio.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self._discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if not drains():
                task.cancel()
                await asyncio.wait([task])
            raise

    def _discard(self, task: asyncio.Task[Any]) -> None:
        self.tasks.discard(task)
        if not task.cancelled():
            task.exception()  # mark it as seen: the stage that waits may be gone

    def abandon(self) -> None:
        """Cancel the effects that are still in flight."""
        for task in self.tasks:
            task.cancel()
