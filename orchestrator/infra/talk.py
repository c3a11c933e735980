"""How the work speaks with whoever started it; commands and tests bring their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from orchestrator.infra.changes import Change


class Talk(Protocol):
    """Progress, changes to look at, and questions."""

    def say(self, text: str) -> None:
        """Say how it goes."""

    def show(self, stack: str, changes: Sequence[Change]) -> None:
        """Show what would happen to a stack."""

    def agree(self, what: str) -> None:
        """Return if it is meant.

        Raises:
            UsageError: `cli.confirmation.needed`.
        """
