"""Draw stacks, changes and files for people, and ask them to confirm changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console

from piecework_orchestrator.cli.output import Output
from piecework_orchestrator.cli.run import confirm_now
from piecework_orchestrator.cli.table import Column, print_table
from piecework_orchestrator.infra.change_set import Change
from piecework_orchestrator.infra.deploy import StackResult
from piecework_orchestrator.infra.status import NOT_DEPLOYED

CHANGE_COLUMNS = (
    Column("ACTION", "action"),
    Column("RESOURCE", "resource"),
    Column("TYPE", "type", shrinks=True, drops=1),
    Column("REPLACEMENT", "replacement", drops=2),
    Column("WHAT", lambda row: ", ".join(row["properties"]), folds=True),
    Column("", lambda row: "holds data" if row["destructive"] else " "),
)
STACK_COLUMNS = (
    Column("STACK", "stack"),
    Column("STATUS", "status"),
    Column("UPDATED", lambda row: str(row.get("updated_at", ""))[:19], shrinks=True),
    Column("TEMPLATE", lambda row: row.get("template", "")),
    Column(
        "DIFFERS",
        lambda row: differences(row.get("different_parameters", ())),
        folds=True,
    ),
)
OUTPUT_COLUMNS = (
    Column("STACK", "stack"),
    Column("OUTPUT", "output"),
    Column("VALUE", "value", folds=True),
)


def show_changes(out: Output, found: Sequence[StackResult]) -> None:
    """Write the changes of a deploy."""
    if not out.table:
        out.rows([outcome.document() for outcome in found], (), "")
        return
    for outcome in found:
        rows = outcome.changes
        if outcome.result == "later":
            out.say(f"{outcome.stack}: waits for {outcome.detail} of an earlier stack")
        elif outcome.changed:
            out.draw(lambda console, o=outcome: console.print(f"{o.stack}: {o.result}"))  # type: ignore[misc]
            out.rows(rows, CHANGE_COLUMNS, "only outputs change")
        else:
            out.say(f"{outcome.stack}: nothing to do")


def show_outcomes(out: Output, done: Sequence[StackResult]) -> None:
    """Write the result of a deploy."""
    columns = (Column("STACK", "stack"), Column("RESULT", "result"))
    out.rows([outcome.document() for outcome in done], columns, "no stack was selected")


def show_stacks(out: Output, found: Sequence[Mapping[str, Any]]) -> None:
    """Write the stacks of an environment."""
    if not out.table:
        out.rows(found, (), "")
        return
    outputs = [
        {"stack": row["stack"], "output": name, "value": value}
        for row in found
        for name, value in row.get("outputs", {}).items()
    ]

    def draw(console: Console) -> None:
        print_table(console, found, STACK_COLUMNS)
        if outputs:
            console.print()
            print_table(console, outputs, OUTPUT_COLUMNS)

    out.draw(draw)
    if all(row["status"] == NOT_DEPLOYED for row in found):
        out.say("next: piecework infra deploy")


def show_files(out: Output, files: Mapping[str, str], written: Sequence[str]) -> None:
    """Write files to stdout, or the paths of written files."""
    if not out.table:
        out.rows([{"name": n, "content": c} for n, c in files.items()], (), "")
        return
    if written:
        out.rows([{"file": path} for path in written], [Column("FILE", "file")], "")
        return
    for name, content in files.items():
        out.stdout.write(f"# ---- {name}\n{content}")


def differences(rows: Sequence[Mapping[str, str]]) -> str:
    """Return the parameters with an unexpected value, as a line."""
    return ", ".join(
        f"{row['name']}={row['value']} ({expected})"
        for row in rows
        for expected in [
            f"wanted {row['wanted']}"
            if "wanted" in row
            else f"default {row['default']}"
        ]
    )


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
