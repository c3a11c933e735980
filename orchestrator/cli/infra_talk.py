"""How `infra`'s commands speak: everything beside the result goes to stderr."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.cli.asking import confirm_now
from orchestrator.cli.infra_views import CHANGE_COLUMNS
from orchestrator.cli.output import Output, print_table
from orchestrator.infra.changes import Change


@dataclass(frozen=True, slots=True)
class CommandTalk:
    """Speaks at the terminal.

    Attributes:
        yes: It is meant: nothing is asked.
    """

    out: Output
    yes: bool

    def say(self, text: str) -> None:
        """Say how it goes."""
        self.out.say(text)

    def show(self, stack: str, changes: Sequence[Change]) -> None:
        """Show what would happen to a stack."""
        self.out.say(f"{stack}:")
        rows = [change.document() for change in changes]
        self.out.draw(lambda c: print_table(c, rows, CHANGE_COLUMNS), beside=True)

    def agree(self, what: str) -> None:
        """Return if it is meant."""
        confirm_now(what, self.out, yes=self.yes)
