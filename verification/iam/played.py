"""Which commands there are, and which of them the play has left out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from typer.main import get_command

from piecework_orchestrator.cli.app import app

#: Commands that ask AWS nothing, or that are a worker; the play runs one itself.
APART = {
    *("demo", "up", "down", "simulate", "worker"),
    *("explain-code", "config validate", "infra cost", "infra render"),
}


def commands(group: Any = None, above: str = "") -> Iterator[str]:
    """Yield every command there is, with its group."""
    for name, command in (group or get_command(app)).commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{above}{name} ")
        else:
            yield above + name


def left_out(played: Iterable[tuple[str, ...]]) -> list[str]:
    """Return the commands that were not run, though they ask AWS something."""
    run = {" ".join(words[:count]) for words in played for count in (1, 2)}
    return sorted(set(commands()) - APART - run)
