"""Run a plain command without the parser of the command line.

Typer loads pydantic to convert the arguments. That takes as long as all the rest of a
command that shows a record. These commands need no conversion. All other forms of them
(`--help`, wrong options, too few arguments) go to Typer, which explains them.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module  # noqa: TID251 -- of the table below
from typing import NamedTuple

#: The words of a command, the place of its function, and the number of its arguments.
COMMANDS: dict[tuple[str, ...], tuple[str, int]] = {
    ("jobs", "list"): ("jobs:list_jobs", 0),
    ("jobs", "show"): ("jobs:show_job", 1),
    ("jobs", "events"): ("jobs:list_events", 1),
    ("chunks", "show"): ("chunks:show_chunk", 2),
}
FORMATS = {"table", "json", "jsonl", "yaml"}
OPTIONS = {"-o", "--output"}


class PlainCommand(NamedTuple):
    """A command in its plain form: arguments, and perhaps the format of the result."""

    place: str
    arguments: tuple[str, ...]
    format: str = "table"


def parse_plain(words: Sequence[str]) -> PlainCommand | None:
    """Return the command if the words are its plain form, else None."""
    place, count = COMMANDS.get((*words[:2],), ("", 0))
    rest = list(words[2:])
    form = "table"
    if len(rest) == count + 2 and OPTIONS & {rest[0], rest[-2]}:
        at = 0 if rest[0] in OPTIONS else count
        form = rest[at + 1]
        del rest[at : at + 2]
    plain = all(word and not word.startswith("-") for word in rest)
    if not place or len(rest) != count or not plain or form not in FORMATS:
        return None
    return PlainCommand(place, (*rest,), form)


def asked_format(words: Sequence[str]) -> str:
    """Return the format for programs that the words ask for; empty: for people."""
    for at, word in enumerate(words, 1):
        found = words[at] if word in OPTIONS and at < len(words) else ""
        if word.startswith(("--output=", "-o")) and word not in OPTIONS:
            found = word.removeprefix("--output=").removeprefix("-o")
        if found in FORMATS - {"table"}:
            return found
    return ""


def run_plain(command: PlainCommand) -> int:
    """Run a plain command; return its exit code."""
    import typer

    from piecework_orchestrator.cli.options import Format

    module, _, name = command.place.partition(":")
    function = getattr(import_module(f"{__package__}.{module}"), name)
    try:
        function(*command.arguments, output=Format(command.format))
    except typer.Exit as ended:
        return ended.exit_code
    return 0
