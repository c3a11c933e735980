"""Progress, changes and questions of the `infra` commands, written to stderr."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.cli.asking import confirm_now
from orchestrator.cli.infra_views import CHANGE_COLUMNS
from orchestrator.cli.output import Output, print_table
from orchestrator.infra.changes import Change


@dataclass(frozen=True, slots=True)
class CommandInteraction:
    """Report to the terminal and ask the user there.

    Attributes:
        yes: Confirm every change without a question.
    """

    out: Output
    yes: bool

    def report(self, text: str) -> None:
        """Write one line of progress."""
        self.out.say(text)

    def show_changes(self, stack: str, changes: Sequence[Change]) -> None:
        """Show the planned changes of one stack."""
        self.out.say(f"{stack}:")
        rows = [change.document() for change in changes]
        self.out.draw(lambda c: print_table(c, rows, CHANGE_COLUMNS), on_stderr=True)

    def confirm(self, action: str) -> None:
        """Return if the user confirms the action."""
        confirm_now(action, self.out, yes=self.yes)
