"""What a loop runs, and what is waited for: cheap, and the same each time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simulation.loop import Loop


class Callback:
    """What is to run, now or at its time: all that is used of asyncio's handles.

    There are thousands in each schedule, and asyncio's own cost several times as much.
    """

    __slots__ = ("args", "callback", "context")

    def __init__(
        self, callback: Callable[..., Any], args: tuple[Any, ...], context: Context
    ) -> None:
        self.callback: Callable[..., Any] | None = callback
        self.args = args
        self.context = context

    def cancel(self) -> None:
        """Let it not run; its time comes all the same."""
        self.callback, self.args = None, ()

    def cancelled(self) -> bool:
        """Say whether it was told not to run."""
        return self.callback is None


class NumberedFuture(asyncio.Future[Any]):
    """A future whose hash is its number: sets of them have the same order each time."""

    number: int

    def __hash__(self) -> int:
        return self.number


class NumberedTask(asyncio.Task[Any]):
    """A task whose hash is its number."""

    def __init__(self, loop: Loop, work: Coroutine[Any, Any, Any], **more: Any) -> None:
        self.number = loop.next_number()
        super().__init__(work, loop=loop, **more)

    def __hash__(self) -> int:
        return self.number
