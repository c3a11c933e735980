"""Emit events to the log and to the listeners of this process."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, cast

from piecework.errors.classify_aws import MEANINGS, Meaning
from piecework.telemetry.events import BOUND, EVENTS, Level

if TYPE_CHECKING:
    import structlog

#: Receives every event and its fields, whatever the level of the log.
Listener: TypeAlias = Callable[[str, Mapping[str, Any]], None]


class Log(Protocol):
    """The part of a structlog logger that is used here."""

    def debug(self, event: str | None = None, *args: Any, **kw: Any) -> Any:
        """Log a detail."""
        ...

    def info(self, event: str | None = None, *args: Any, **kw: Any) -> Any:
        """Log a normal event."""
        ...

    def warning(self, event: str | None = None, *args: Any, **kw: Any) -> Any:
        """Log a failure that recovery handles."""
        ...

    def error(self, event: str | None = None, *args: Any, **kw: Any) -> Any:
        """Log a failure that needs an operator."""
        ...


def emit(log: Log, name: str, *, level: Level | None = None, **fields: object) -> None:
    """Log an event of the catalogue, at `level` or the level of its row.

    Raises:
        KeyError: The catalogue does not have the event, or its fields differ.
    """
    event = EVENTS[name]
    if not _REQUIRED[name] <= fields.keys() <= _KNOWN[name]:
        unknown = ", ".join(sorted(fields.keys() - _KNOWN[name])) or "nothing"
        missing = ", ".join(sorted(_REQUIRED[name] - fields.keys())) or "nothing"
        raise KeyError(f"{name}: unknown is {unknown}, missing is {missing}")
    getattr(log, level or event.level)(name, **fields)
    for listener in _LISTENERS:
        listener(name, fields)


#: The fields that each event may have, and those that it must have; computed once.
_KNOWN: Final = {name: event.fields | BOUND for name, event in EVENTS.items()}
_REQUIRED: Final = {name: e.fields - e.optional for name, e in EVENTS.items()}

#: The listeners of this process: those of its metrics and traces, else none.
_LISTENERS: Final[list[Listener]] = []


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Call the listener with each event inside the context."""
    _LISTENERS.append(listener)
    try:
        yield
    finally:
        _LISTENERS.remove(listener)


def listen_always(listener: Listener) -> None:
    """Call the listener with each event from now on; a second call changes nothing."""
    if listener not in _LISTENERS:
        _LISTENERS.append(listener)


# ── the log of a program that has not configured one ────────────────────────

#: Configures the log before its first line; empty unless `configure_late` was called.
CONFIGURE_LATE: Final[list[Callable[[], None]]] = []


def quiet_log() -> structlog.stdlib.BoundLogger:
    """Return the logger that the program configured, or a silent one.

    An unconfigured structlog would print every debug line to stdout.
    """
    import structlog  # imported late, because it loads rich

    for configure_now in [*CONFIGURE_LATE]:
        configure_now()
    if structlog.is_configured():
        return cast("structlog.stdlib.BoundLogger", structlog.get_logger())
    silent = structlog.make_filtering_bound_logger(logging.CRITICAL)
    log = structlog.wrap_logger(structlog.ReturnLogger(), wrapper_class=silent)
    return cast("structlog.stdlib.BoundLogger", log)


# ── emit an event for each response of AWS that is a throttle ─────────────────
#
# botocore sends the event `needs-retry` after every response. Its handlers see also the
# throttles that botocore retries itself.

#: An event of botocore. A handler that returns None leaves the retry to botocore.
ANSWERED = "needs-retry"


def emit_throttles(client: Any) -> None:
    """Register the handler for the responses of a client."""
    client.meta.events.register(ANSWERED, handle_response)


def handle_response(response: Any = None, operation: Any = None, **_: Any) -> None:
    """Emit a throttle; return None, which leaves the retry to botocore."""
    if response is None:
        return
    code = find_throttle_code(response[1])
    if code:
        name = getattr(operation, "name", "")
        service = getattr(getattr(operation, "service_model", None), "service_name", "")
        emit(
            quiet_log(),
            "aws.throttled",
            service=service,
            operation=name,
            error_code=code,
        )


def find_throttle_code(answer: Any) -> str:
    """Return the error code of a response that is a throttle, else an empty text."""
    error = answer.get("Error") if isinstance(answer, dict) else None
    if not error:
        return ""
    reasons = answer.get("CancellationReasons") or ()
    codes = [error.get("Code"), *(reason.get("Code") for reason in reasons)]
    found = (code for code in codes if MEANINGS.get(code) is Meaning.THROTTLED)
    return next(found, "")
