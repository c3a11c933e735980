"""Provide a logger that writes nothing, and records unexpected errors as violations."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from piecework.errors import PieceworkError


@dataclass(frozen=True, slots=True)
class Log:
    """The part of a structlog logger that the real code uses.

    Attributes:
        unexpected: Called with each unexpected error.
        note: Called with each warning and error.
    """

    unexpected: Callable[[str], None]
    note: Callable[[str], None]

    def bind(self, **_: Any) -> Log:
        """Return this logger; bound facts are not recorded."""
        return self

    def debug(self, *_: Any, **__: Any) -> None:
        """Write nothing."""

    info = debug

    def warning(self, event: str = "", **facts: Any) -> None:
        """Note a warning in the trace."""
        text = " ".join(f"{name}={facts[name]}" for name in sorted(facts))
        self.note(f"{event} {text}")

    error = warning

    def exception(self, event: str = "", **_: Any) -> None:
        """Record an error as a violation if it is not a PieceworkError."""
        found = sys.exc_info()[1]
        if not isinstance(found, PieceworkError):
            self.unexpected(f"{event}: {found!r}")
        self.note(f"{event}: {found!r}")
