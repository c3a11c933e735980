"""The row of an event in the catalogue."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

#: Methods of a logger. `exception` logs an error with the current traceback.
Level = Literal["debug", "info", "warning", "error", "exception", "critical"]

#: Fields that every event may carry: the logger binds them once for each delivery.
BOUND: Final = frozenset(
    {"tenant", "job", "chunk", "gen", "fence", "attempt", "pipeline", "worker"}
)


class Event(NamedTuple):
    """A sentence that says when it is emitted, its own fields, and its level."""

    when: str
    fields: frozenset[str]
    level: Level = "info"


def event(when: str, fields: str = "", level: Level = "info") -> Event:
    """Return a row of the catalogue; `fields` holds the names, separated by spaces."""
    return Event(when, frozenset(fields.split()), level)
