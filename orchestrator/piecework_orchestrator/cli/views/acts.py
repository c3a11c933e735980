"""The columns of what earlier claims did, and of what becomes of it."""

from __future__ import annotations

from piecework_orchestrator.cli.table import Column


def act_columns(title: str, name: str) -> list[Column]:
    """Return the columns of kinds of acts; the last one has what becomes of each."""
    return [
        Column("STAGE", "stage"),
        Column("CALLED", "called"),
        Column("DEPENDENCY", "dependency", drops=1),
        Column("STATE", "state"),
        Column("KIND", "effect", drops=2),
        Column("NUMBER", "number", right=True),
        Column(title, name, folds=True),
    ]
