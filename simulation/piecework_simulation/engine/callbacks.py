"""Replace asyncio's handles, futures and tasks by cheap, deterministic ones."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any


class Callback:
    """A scheduled callback, with the part of asyncio's handle API that is used.

    A schedule creates thousands of them, and asyncio's own cost several times as much.
    """

    __slots__ = ("args", "callback", "context")

    def __init__(
        self, callback: Callable[..., Any], args: tuple[Any, ...], context: Context
    ) -> None:
        self.callback: Callable[..., Any] | None = callback
        self.args = args
        self.context = context

    def cancel(self) -> None:
        """Do not run the callback; its time still passes."""
        self.callback, self.args = None, ()

    def cancelled(self) -> bool:
        """Return whether the callback was cancelled."""
        return self.callback is None


class NumberedFuture(asyncio.Future[Any]):
    """A future whose hash is its number, so that sets have a deterministic order."""

    number: int

    def __hash__(self) -> int:
        return self.number


class NumberedTask(asyncio.Task[Any]):
    """A task whose hash is its number, so that sets have a deterministic order."""

    def __init__(
        self, number: int, work: Coroutine[Any, Any, Any], **more: Any
    ) -> None:
        self.number = number
        super().__init__(work, **more)

    def __hash__(self) -> int:
        return self.number
