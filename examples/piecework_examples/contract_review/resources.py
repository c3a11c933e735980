"""Clients that are opened once an event loop, on first use, and closed with it.

A stage has no place of its own to open or close a client, but a task has. The task
opens the client, and holds it. When the loop ends, asyncio.run cancels all tasks, and
this task leaves the client's own context.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Generic, TypeVar

R = TypeVar("R")


class PerLoop(Generic[R]):
    """One resource for each running event loop, opened by its first user."""

    def __init__(self, opener: Callable[[], AbstractAsyncContextManager[R]]) -> None:
        self._opener = opener
        self._open: dict[asyncio.AbstractEventLoop, asyncio.Future[R]] = {}
        self._holders: set[asyncio.Task[None]] = set()

    async def get(self) -> R:
        """Return the resource of the running loop."""
        loop = asyncio.get_running_loop()
        if loop not in self._open:
            self._open[loop] = loop.create_future()
            holder = loop.create_task(self._hold(self._open[loop]))
            self._holders.add(holder)  # the loop itself refers to tasks only weakly
            holder.add_done_callback(self._holders.discard)
        # Shielded, so that the cancelling of one caller does not hurt the others.
        return await asyncio.shield(self._open[loop])

    async def _hold(self, opened: asyncio.Future[R]) -> None:
        try:
            async with self._opener() as resource:
                opened.set_result(resource)
                await asyncio.Event().wait()
        except Exception as error:
            if opened.done():
                raise
            opened.set_exception(error)
        finally:
            opened.cancel()
            self._open.pop(asyncio.get_running_loop(), None)
