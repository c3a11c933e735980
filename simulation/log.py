"""A logger that writes nothing; what ends unexpectedly it keeps for the verdict."""

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
        unexpected: Told of what no part of the code expects.
        note: Told of warnings and errors.
    """

    unexpected: Callable[[str], None]
    note: Callable[[str], None]

    def bind(self, **_: Any) -> Log:
        """Return a logger with more facts: there is nothing to keep them for."""
        return self

    def debug(self, *_: Any, **__: Any) -> None:
        """Write nothing."""

    info = debug

    def warning(self, event: str = "", **facts: Any) -> None:
        """Note what recovery takes care of."""
        text = " ".join(f"{name}={facts[name]}" for name in sorted(facts))
        self.note(f"{event} {text}")

    error = warning

    def exception(self, event: str = "", **_: Any) -> None:
        """Keep an error that is not one of those that recovery is for."""
        found = sys.exc_info()[1]
        if not isinstance(found, PieceworkError):
            self.unexpected(f"{event}: {found!r}")
        self.note(f"{event}: {found!r}")
