"""Tracebacks for logs: where, of what type, but in whose words only if they are ours.

A message of an exception is written by whoever raised it, and quotes what they had in
hand; a note beside it, too. Only our own messages and those of the SDK are shown, and
those are cleaned.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import traceback
from collections.abc import Iterator, MutableMapping
from types import TracebackType
from typing import Any, Final

import structlog

from piecework.errors import PieceworkError
from piecework.redact import shortened

#: Characters of a traceback, of a message in it, and of a line of a library's.
TRACE_LIMIT: Final = 8_000
MESSAGE_LIMIT: Final = 512
LINE_LIMIT: Final = 1_000
#: Frames of each exception, the innermost, and exceptions behind one another.
FRAMES: Final = 30
CHAIN: Final = 8
#: The SDK's, by name: it is not loaded here. They say which request AWS refused, why.
_SDK: Final = frozenset({"BotoCoreError", "ClientError"})


def format_exception(
    _log: object, _method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Put a traceback in the place of an exception, for structlog."""
    found = event.pop("exc_info", None)
    if found is True:
        found = sys.exception()
    error = found[1] if isinstance(found, tuple) else found
    if isinstance(error, BaseException):
        event["exception"] = shown(error)
    return event


def clean_event(
    _log: object, _method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Clean a line that a library wrote; how long it may be was not ours to say."""
    event["event"] = shortened(str(event.get("event", "")), LINE_LIMIT)
    return event


def shown(error: BaseException) -> str:
    """Return the traceback of an exception and of those behind it, outermost last."""
    parts = [_one(each) for each in _chain(error)]
    return "\n\n".join(reversed(parts))[-TRACE_LIMIT:]


def _chain(error: BaseException) -> Iterator[BaseException]:
    for _ in range(CHAIN):
        yield error
        behind = error.__cause__
        if behind is None and not error.__suppress_context__:
            behind = error.__context__
        if behind is None:
            return
        error = behind


def _one(error: BaseException) -> str:
    # Not the lines of code: those may hold what somebody typed in to try it out.
    said = [
        f"  {frame.f_code.co_filename}:{line} in {frame.f_code.co_name}"
        for frame, line in traceback.walk_tb(error.__traceback__)
    ][-FRAMES:]
    said.append(f"{type(error).__qualname__}{_words(error)}")
    if isinstance(error, BaseExceptionGroup):
        said += [_one(each) for each in error.exceptions[:CHAIN]]
    return "\n".join(said)


def _words(error: BaseException) -> str:
    """Return what may be shown of a message."""
    if isinstance(error, PieceworkError):
        return f": {error.code}: {shortened(error.message, MESSAGE_LIMIT)}"
    if _SDK & {kind.__name__ for kind in type(error).__mro__}:
        return f": {shortened(str(error), MESSAGE_LIMIT)}"
    if isinstance(error, OSError) and error.strerror:
        return f": {error.strerror}"
    return ""


# ── what nobody caught ──────────────────────────────────────────────────────


def guard_process() -> None:
    """Log what nobody caught as everything else: Python would print its message."""

    def uncaught(
        kind: type[BaseException], error: BaseException, _: TracebackType | None
    ) -> None:
        if issubclass(kind, KeyboardInterrupt):
            return
        structlog.get_logger().critical("process.failed", exc_info=error)

    def in_thread(found: threading.ExceptHookArgs) -> None:
        structlog.get_logger().error("thread.failed", exc_info=found.exc_value)

    def unraisable(found: sys.UnraisableHookArgs) -> None:
        structlog.get_logger().error("cleanup.failed", exc_info=found.exc_value)

    sys.excepthook = uncaught
    threading.excepthook = in_thread
    sys.unraisablehook = unraisable


def guard_loop(loop: asyncio.AbstractEventLoop) -> None:
    """Log what a task raised that nobody waited for; asyncio would show its message."""

    def left(_: asyncio.AbstractEventLoop, told: dict[str, Any]) -> None:
        log = structlog.get_logger()
        log.error("task.failed", reason=told["message"], exc_info=told.get("exception"))

    loop.set_exception_handler(left)
