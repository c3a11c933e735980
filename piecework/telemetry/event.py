"""What an event is: when it is emitted, what it says, how loud."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

Level = Literal["debug", "info", "warning", "error"]

#: Whose event it is. Bound once a delivery, so any event may carry them.
BOUND: Final = frozenset(
    {"tenant", "job", "chunk", "gen", "fence", "attempt", "pipeline", "worker"}
)


class Event(NamedTuple):
    """When an event is emitted, its fields beside the bound ones, and its level."""

    when: str
    fields: frozenset[str]
    level: Level = "info"


def event(when: str, fields: str = "", level: Level = "info") -> Event:
    """Return a row of the catalogue; its fields are words in one text."""
    return Event(when, frozenset(fields.split()), level)
