"""Configure the logs of a process: JSON lines, or colours on a terminal."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping, MutableMapping
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, TextIO

from piecework.errors import PieceworkError, UsageError
from piecework.errors.redaction import learn_secrets, shortened
from piecework.telemetry.emit import CONFIGURE_LATE, emit
from piecework.telemetry.output import tolerant
from piecework.telemetry.traces import add_trace_id

if TYPE_CHECKING:
    import structlog

# ── write tracebacks ──────────────────────────────────────────────────────────
#
# The code that raises an exception writes its message and notes, and may quote payloads
# in them. A logged traceback shows files, lines and types, and only the messages of
# piecework and of the SDK, redacted.

#: Characters of a traceback, of a message in it, and of a line logged by a library.
TRACE_LIMIT: Final = 8_000
MESSAGE_LIMIT: Final = 512
LINE_LIMIT: Final = 1_000
#: Innermost frames of each exception, and exceptions of one chain of causes.
FRAMES: Final = 30
CHAIN: Final = 8
#: Exceptions of the SDK, by name, so that it is not loaded here. Their messages say
#: which request AWS refused, and why.
_SDK: Final = frozenset({"BotoCoreError", "ClientError"})


def format_exception(
    _log: object, _method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Replace `exc_info` by a traceback; a processor of structlog."""
    found = event.pop("exc_info", None)
    if found is True:
        found = sys.exception()
    error = found[1] if isinstance(found, tuple) else found
    if isinstance(error, BaseException):
        event["exception"] = format_traceback(error)
    return event


def clean_event(
    _log: object, _method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Redact and shorten a line that a library logged."""
    event["event"] = shortened(str(event.get("event", "")), LINE_LIMIT)
    return event


def format_traceback(error: BaseException) -> str:
    """Return the tracebacks of an exception and of its causes, outermost last."""
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
    # The lines of code are left out: in an interactive session they may hold data.
    lines = [
        f"  {frame.f_code.co_filename}:{line} in {frame.f_code.co_name}"
        for frame, line in traceback.walk_tb(error.__traceback__)
    ][-FRAMES:]
    lines.append(f"{type(error).__qualname__}{_words(error)}")
    if isinstance(error, BaseExceptionGroup):
        lines += [_one(each) for each in error.exceptions[:CHAIN]]
    return "\n".join(lines)


def _words(error: BaseException) -> str:
    """Return the part of a message that may be logged."""
    if isinstance(error, PieceworkError):
        return f": {error.code}: {shortened(error.message, MESSAGE_LIMIT)}"
    if _SDK & {kind.__name__ for kind in type(error).__mro__}:
        return f": {shortened(str(error), MESSAGE_LIMIT)}"
    if isinstance(error, OSError) and error.strerror:
        return f": {error.strerror}"
    return ""


# ── uncaught exceptions ──────────────────────────────────────────────────────


def guard_process() -> None:
    """Log uncaught exceptions without their messages, which Python would print."""
    import structlog

    def uncaught(
        kind: type[BaseException], error: BaseException, _: TracebackType | None
    ) -> None:
        if issubclass(kind, KeyboardInterrupt):
            return
        emit(structlog.get_logger(), "process.failed", exc_info=error)

    def in_thread(found: threading.ExceptHookArgs) -> None:
        emit(structlog.get_logger(), "thread.failed", exc_info=found.exc_value)

    def unraisable(found: sys.UnraisableHookArgs) -> None:
        emit(structlog.get_logger(), "cleanup.failed", exc_info=found.exc_value)

    sys.excepthook = uncaught
    threading.excepthook = in_thread
    sys.unraisablehook = unraisable


def guard_loop(loop: asyncio.AbstractEventLoop) -> None:
    """Log exceptions of unawaited tasks without their messages.

    asyncio itself would print them.
    """
    import structlog

    def unawaited(_: asyncio.AbstractEventLoop, facts: dict[str, Any]) -> None:
        emit(
            structlog.get_logger(),
            "task.failed",
            reason=facts["message"],
            exc_info=facts.get("exception"),
        )

    loop.set_exception_handler(unawaited)


_HANDLER: Final = "piecework"

# structlog is imported in functions, because it loads rich. A program that imports a
# pipeline, and a command that shows a record, log nothing. They do not wait for that
# import.


def configure(
    level: str = "info",
    *,
    json: bool | None = None,
    stream: TextIO | None = None,
    environ: Mapping[str, str] = os.environ,
) -> None:
    """Send all logs to `stream`, by default stderr, as JSON unless it is a terminal.

    Commands write their results to stdout, so logs must not go there.

    Raises:
        UsageError: `config.setting.invalid`: the level does not exist.
    """
    import structlog

    CONFIGURE_LATE.clear()
    stream = tolerant(sys.stderr if stream is None else stream)
    learn_secrets(environ)
    number = _number(level)
    as_json = not stream.isatty() if json is None else json
    renderer = _renderer(as_json=as_json, colors=not environ.get("NO_COLOR"))
    structlog.configure(
        processors=[*_shared_processors(), renderer],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.WriteLoggerFactory(file=stream),
        # a cached logger would keep writing to the stream of an earlier configure
        cache_logger_on_first_use=False,
    )
    _adopt_standard_library(stream, renderer, max(number, logging.WARNING))


def configure_late(level: str, *, stream: TextIO) -> None:
    """Configure as `configure` does, when the first line is logged.

    Lines are logged by `quiet_log` and by the standard library; code that takes its
    logger from structlog itself needs `configure`, or `configure_loaded`.

    Raises:
        UsageError: `config.setting.invalid`: the level does not exist.
    """
    number = _number(level)
    now = partial(configure, level, stream=stream)
    CONFIGURE_LATE[:] = [now]
    handler = _LateHandler(max(number, logging.WARNING))
    handler.set_name(_HANDLER)
    _replace_handler(handler)


def configure_loaded() -> None:
    """Configure the logs now if a module of the user has loaded structlog.

    It may log by itself, and an unconfigured structlog prints every line.
    """
    for configure_now in [*CONFIGURE_LATE] if "structlog" in sys.modules else ():
        configure_now()


class _LateHandler(logging.Handler):
    """Configures the logs when a library logs its first line."""

    def emit(self, record: logging.LogRecord) -> None:
        """Replace this handler, and hand the line to the next one."""
        for configure_now in [*CONFIGURE_LATE]:
            configure_now()
        logging.getLogger(record.name).handle(record)


def _shared_processors() -> list[structlog.typing.Processor]:
    """Return the processors of our events and of lines that libraries log."""
    import structlog

    return [
        structlog.contextvars.merge_contextvars,
        add_trace_id,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        format_exception,
    ]


def _number(level: str) -> int:
    """Return the level's number in the standard library."""
    numbers = logging.getLevelNamesMapping()
    if level.upper() not in numbers:
        raise UsageError(
            f"There is no log level {level!r}.",
            code="config.setting.invalid",
            next_step="Use debug, info, warning or error.",
        )
    return numbers[level.upper()]


def _renderer(*, as_json: bool, colors: bool) -> structlog.typing.Processor:
    import structlog

    if as_json:
        return structlog.processors.JSONRenderer()
    # plain: the pretty tracebacks print local variables, and those are payloads
    return structlog.dev.ConsoleRenderer(
        colors=colors, exception_formatter=structlog.dev.plain_traceback
    )


def _adopt_standard_library(
    stream: TextIO, renderer: structlog.typing.Processor, level: int
) -> None:
    """Send the warnings of libraries to the same stream in the same format."""
    import structlog

    handler = logging.StreamHandler(stream)
    handler.set_name(_HANDLER)
    handler.setLevel(level)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=_shared_processors(),
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                clean_event,
                renderer,
            ],
        )
    )
    _replace_handler(handler)


def _replace_handler(handler: logging.Handler) -> None:
    """Let a handler get all lines in place of the one of an earlier configuration."""
    root = logging.getLogger()
    for earlier in [each for each in root.handlers if each.get_name() == _HANDLER]:
        root.removeHandler(earlier)
    root.addHandler(handler)
