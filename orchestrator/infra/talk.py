"""Progress and questions of the infra code; commands and tests implement this."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from orchestrator.infra.changes import Change


class Interaction(Protocol):
    """Reports progress, shows changes and asks for confirmation."""

    def report(self, text: str) -> None:
        """Report one line of progress."""

    def show_changes(self, stack: str, changes: Sequence[Change]) -> None:
        """Show the planned changes of one stack."""

    def confirm(self, action: str) -> None:
        """Return if the user confirms the action.

        Raises:
            UsageError: `cli.confirmation.needed`.
        """
