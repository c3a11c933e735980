"""Configure the logs of a process: JSON lines, or colours on a terminal."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping
from typing import Final, TextIO

import structlog

from piecework.errors import UsageError
from piecework.redact import learn_secrets
from piecework.telemetry.traces import clean_event, format_exception

_HANDLER: Final = "piecework"

# For events of piecework and for lines that libraries log by the standard library.
_SHARED: Final[tuple[structlog.typing.Processor, ...]] = (
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    format_exception,
)


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
        UsageError: `config.setting.invalid`: there is no such level.
    """
    stream = sys.stderr if stream is None else stream
    learn_secrets(environ)
    number = _number(level)
    as_json = not stream.isatty() if json is None else json
    renderer = _renderer(as_json=as_json, colors=not environ.get("NO_COLOR"))
    structlog.configure(
        processors=[*_SHARED, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.WriteLoggerFactory(file=stream),
        # a cached logger would keep writing to the stream of an earlier configure
        cache_logger_on_first_use=False,
    )
    _adopt_standard_library(stream, renderer, max(number, logging.WARNING))


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
    handler = logging.StreamHandler(stream)
    handler.set_name(_HANDLER)
    handler.setLevel(level)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=_SHARED,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                clean_event,
                renderer,
            ],
        )
    )
    root = logging.getLogger()
    for earlier in [each for each in root.handlers if each.get_name() == _HANDLER]:
        root.removeHandler(earlier)
    root.addHandler(handler)
