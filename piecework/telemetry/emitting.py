"""Emit events: to the log, and to whoever listens to them in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, Protocol, TypeAlias

from piecework.telemetry.event import BOUND, Level
from piecework.telemetry.events import EVENTS

#: Told of every event and its fields, at whatever level the log is.
Listener: TypeAlias = Callable[[str, Mapping[str, Any]], None]


class Log(Protocol):
    """The part of a structlog logger that is used here."""

    def debug(self, event: str | None = None, *args: Any, **kw: Any) -> Any:
        """Log what only a close look needs."""
        ...

    def info(self, event: str | None = None, *args: Any, **kw: Any) -> Any:
        """Log what happened as it should."""
        ...

    def warning(self, event: str | None = None, *args: Any, **kw: Any) -> Any:
        """Log what recovery is taking care of."""
        ...

    def error(self, event: str | None = None, *args: Any, **kw: Any) -> Any:
        """Log what needs a person."""
        ...


def emit(log: Log, name: str, *, level: Level | None = None, **fields: object) -> None:
    """Log an event of the catalogue; an unknown name or field is a KeyError.

    At the level of the catalogue, unless one is given.
    """
    event, known = EVENTS[name], _KNOWN[name]
    if not fields.keys() <= known:
        unknown = ", ".join(sorted(fields.keys() - known))
        raise KeyError(f"{name} has no field {unknown}")
    getattr(log, level or event.level)(name, **fields)
    for listener in _LISTENERS:
        listener(name, fields)


#: What each event may carry, put together once.
_KNOWN: Final = {name: event.fields | BOUND for name, event in EVENTS.items()}

#: Those of this process: mostly none, and one where metrics are written.
_LISTENERS: Final[list[Listener]] = []


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Tell somebody of each event inside."""
    _LISTENERS.append(listener)
    try:
        yield
    finally:
        _LISTENERS.remove(listener)
