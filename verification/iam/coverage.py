"""List the commands, and those that a run has left out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from typer.main import get_command

from piecework_orchestrator.cli.app import app

#: Commands that call no AWS but their own, and the worker, which the run starts itself.
APART = {
    *("ask", "demo", "dev", "down", "init", "run", "simulate", "up", "worker"),
    *("explain-code", "config validate", "infra cost", "infra render"),
}


def commands(group: Any = None, above: str = "") -> Iterator[str]:
    """Yield every command with its group."""
    for name, command in (group or get_command(app)).commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{above}{name} ")
        else:
            yield above + name


def left_out(commands_run: Iterable[tuple[str, ...]]) -> list[str]:
    """Return the commands with AWS calls that were not run."""
    run = {" ".join(words[:count]) for words in commands_run for count in (1, 2)}
    return sorted(set(commands()) - APART - run)
