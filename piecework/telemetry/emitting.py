"""Emit events to the log and to the listeners of this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, Protocol, TypeAlias

from piecework.telemetry.event import BOUND, Level
from piecework.telemetry.events import EVENTS

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
        KeyError: The catalogue does not have the event, or the event a field.
    """
    event, known = EVENTS[name], _KNOWN[name]
    if not fields.keys() <= known:
        unknown = ", ".join(sorted(fields.keys() - known))
        raise KeyError(f"{name} has no field {unknown}")
    getattr(log, level or event.level)(name, **fields)
    for listener in _LISTENERS:
        listener(name, fields)


#: The fields that each event may carry; computed once.
_KNOWN: Final = {name: event.fields | BOUND for name, event in EVENTS.items()}

#: The listeners of this process: one where metrics are written, else none.
_LISTENERS: Final[list[Listener]] = []


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Call the listener with each event inside the context."""
    _LISTENERS.append(listener)
    try:
        yield
    finally:
        _LISTENERS.remove(listener)
