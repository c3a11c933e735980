"""Call a function of a pipeline; whatever it raises is its own failure, no one else's.

`SystemExit` would end the worker, with all that it has in hand. `StopIteration` cannot
be handed on from a thread: whoever waits would wait for ever. A cancellation that
nobody asked for would look like one that somebody did.
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
    """Call a coroutine function right here.

    Raises:
        RuntimeError: It asked for the end of the process.
        TransientError: Something that it waited for was cancelled.
    """
    try:
        return await function(*args, **kwargs)
    except SystemExit as error:
        raise left(error) from error
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        message = "Something that the function waited for was cancelled."
        raise TransientError(message) from error


async def rest_of(value: Any) -> Any:
    """Do what a plain function has only handed on, as a lambda does: await it."""
    return await on_loop(lambda: value) if inspect.isawaitable(value) else value


async def in_thread(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a plain function in a thread beside the loop.

    Raises:
        RuntimeError: It asked for the end of the process, or of an iteration.
    """
    return await asyncio.to_thread(call, function, *args, **kwargs)


def call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a plain function in its thread."""
    try:
        return function(*args, **kwargs)
    except (StopIteration, SystemExit) as error:
        raise left(error) from error


def left(error: BaseException) -> RuntimeError:
    """Return what stands for it, as Python has it of a coroutine's StopIteration."""
    return RuntimeError(f"the function raised {type(error).__name__}")
