"""Call a user's function so that whatever it raises ends only the stage.

`SystemExit` would end the worker with all its chunks. `StopIteration` cannot be passed
on from a thread: the caller would wait for ever. A `CancelledError` that the worker did
not cause would look like a cancellation of the stage.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from piecework.errors import TransientError


async def on_loop(
    function: Callable[..., Awaitable[Any]], *args: Any, **kwargs: Any
) -> Any:
    """Call a coroutine function on this event loop.

    Raises:
        RuntimeError: The function raised SystemExit.
        TransientError: Something that the function awaited was cancelled.
    """
    try:
        return await function(*args, **kwargs)
    except SystemExit as error:
        raise as_runtime_error(error) from error
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        message = "A task that the function awaited was cancelled."
        raise TransientError(message) from error


async def await_result(value: Any) -> Any:
    """Await a value if it is awaitable: a lambda may return another's coroutine."""
    return await on_loop(lambda: value) if inspect.isawaitable(value) else value


async def in_thread(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a plain function in a thread beside the event loop.

    Raises:
        RuntimeError: The function raised SystemExit or StopIteration.
    """
    return await asyncio.to_thread(call, function, *args, **kwargs)


def call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a plain function in its thread."""
    try:
        return function(*args, **kwargs)
    except (StopIteration, SystemExit) as error:
        raise as_runtime_error(error) from error


def as_runtime_error(error: BaseException) -> RuntimeError:
    """Return a replacement, as Python does for a coroutine's StopIteration."""
    return RuntimeError(f"the function raised {type(error).__name__}")
