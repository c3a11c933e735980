"""Call a user's function so that whatever it raises ends only the stage.

`SystemExit` and `KeyboardInterrupt` would end the worker with all its chunks. Another
BaseException, such as the panic of a Rust extension, would pass every handler. Then the
chunk would only lose its lease. A thread cannot pass `StopIteration` on: the caller
would wait for ever. A `CancelledError` that the worker did not cause would look like a
cancellation of the stage.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextvars import copy_context
from typing import Any

from piecework.domain.protocols import CancelRequestedError, ClaimLostError
from piecework.errors import TransientError
from piecework.errors.classify_exhaustion import EXHAUSTED_CODE

#: What passes through a user's function without being its failure. Python raises
#: GeneratorExit in a coroutine that it closes.
ENDS_OF_A_CLAIM = (ClaimLostError, CancelRequestedError, GeneratorExit)


class AwaitCancelledError(TransientError):
    """Something that a user's function awaited was cancelled.

    The function has read no answer: its provider may still execute the request.
    """


async def on_loop(
    function: Callable[..., Awaitable[Any]], /, *args: Any, **kwargs: Any
) -> Any:
    """Call a coroutine function on this event loop.

    Raises:
        RuntimeError: The function raised a BaseException that is not an Exception.
        AwaitCancelledError: Something that the function awaited was cancelled.
    """
    try:
        return await function(*args, **kwargs)
    except Exception:
        raise
    except BaseException as error:
        raise as_failure(error) from error


async def await_result(value: Any) -> Any:
    """Await a value if it is awaitable: a lambda may return another's coroutine."""
    return await on_loop(lambda: value) if inspect.isawaitable(value) else value


async def in_thread(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call a plain function in a thread beside the event loop.

    Raises:
        RuntimeError: The function raised StopIteration, or a BaseException that is not
            an Exception.
        TransientError: `runtime.worker.exhausted`: no thread could be started, and the
            function was not called.
    """
    answer: Future[Any] = Future()
    context = copy_context()

    def work() -> None:
        if not answer.set_running_or_notify_cancel():
            return
        try:
            value = context.run(call, function, *args, **kwargs)
        except BaseException as error:  # noqa: BLE001 -- it is the caller's
            answer.set_exception(error)
        else:
            answer.set_result(value)

    try:
        asyncio.get_running_loop().run_in_executor(None, work)
    except RuntimeError as error:
        # The pool keeps the work: another thread of it may have begun it, or would do
        # so later.
        if answer.cancel():
            message = "The worker has no thread left for a plain function."
            raise TransientError(message, code=EXHAUSTED_CODE) from error
    return await asyncio.wrap_future(answer)


def call(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call a plain function in its thread."""
    try:
        return function(*args, **kwargs)
    except StopIteration as error:
        raise as_exception(error) from error
    except Exception:
        raise
    except BaseException as error:
        raise as_failure(error) from error


def as_failure(error: BaseException) -> Exception:
    """Return what a user's function raised as an Exception.

    Raises:
        BaseException: The error itself, if the function did not cause it. That is a
            cancellation of the task that called it, or the end of the claim.
    """
    if isinstance(error, Exception):
        return error
    if isinstance(error, ENDS_OF_A_CLAIM):
        raise error
    if isinstance(error, asyncio.CancelledError):
        if is_cancelled():
            raise error
        message = "A task that the function awaited was cancelled."
        return AwaitCancelledError(message).with_traceback(error.__traceback__)
    return as_exception(error)


def is_cancelled() -> bool:
    """Return whether the running task was cancelled; a thread runs none."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return False
    return task is not None and task.cancelling() > 0


def as_exception(error: BaseException) -> RuntimeError:
    """Return a replacement, as Python does for a coroutine's StopIteration.

    A group of errors is replaced, too: one of them is not an Exception. The traceback
    stays, because it names the line of the user's code.
    """
    told = f"the function raised {type(error).__name__}"
    if text := str(error):
        told += f": {text}"
    return RuntimeError(told).with_traceback(error.__traceback__)
