"""The parts that several views share."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from rich.console import Console

from orchestrator.cli.output import Column, Document, print_table

View = Callable[[Console], None]

ERROR_HISTORY_COLUMNS = [
    Column("ATTEMPT", "attempt", right=True),
    Column("AT", lambda row: str(row["at"])[:19] + "Z"),
    Column("WORKER", "worker", shrinks=True),
    Column("CODE", "code"),
    Column("MESSAGE", "message", folds=True),
]


def section(
    console: Console, title: str, rows: list[Document], columns: list[Column]
) -> None:
    """Draw a table under a title, if it has rows."""
    if rows:
        console.print(f"\n{title}", style="bold")
        print_table(console, rows, columns)


def pretty(payload: Any) -> str:
    """Return a payload as indented JSON."""
    return json.dumps(payload, ensure_ascii=False, indent=2)
