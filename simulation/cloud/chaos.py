"""Define the interface that decides when a service shows a rare fault."""

from __future__ import annotations

from typing import Protocol


class Chaos(Protocol):
    """Decides, from a seed, whether the rare thing happens this time."""

    def fires(self, kind: str) -> bool:
        """Draw once for a kind of fault."""
        ...


class Calm:
    """Nothing rare ever happens."""

    def fires(self, kind: str) -> bool:  # noqa: ARG002 -- the protocol's argument
        """Return False."""
        return False
