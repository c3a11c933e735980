"""Become another program: the worker, the simulator, or the models of a state file.

The command line cannot import them, because they import it.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Sequence
from typing import Annotated, Any, NoReturn

import typer
import typer.main

#: Serves what a state file holds to the command that its words say.
STATE_PROGRAM = "piecework_simulation.state"
#: The commands that can work on the state file of a run, by their first word.
ON_STATE = frozenset(
    {"approvals", "chunks", "dlq", "effects", "events", "jobs", "results", "ui"}
)
FLAG = "--state"
#: The variable by which that program tells the command the file that it works on.
STATE_FILE = "PIECEWORK_STATE_FILE"
#: The variable by which it tells what starts the run of that file again.
RUN_LINE = "PIECEWORK_STATE_RUN"
#: A command in a text that needs a worker, or starts one: on a state file, its run is
#: the worker.
_NEEDS_WORKER = re.compile(
    r"\bpiecework (?:jobs watch [^\s`]+|results [^\s`]+ --follow|"
    r"worker --pipelines [^\s`]+)"
)
#: A command in a text that can work on a state file. Those of a group have two words.
_COMMAND = re.compile(
    r"\bpiecework (?:(?:approvals|chunks|dlq|effects|jobs) [a-z][a-z-]*"
    rf"|events|results|ui)\b(?! {FLAG})"
)


def become(module: str, words: Sequence[str]) -> NoReturn:
    """Replace this process by a program of ours, with these words."""
    from piecework.loading import WORKING_DIRECTORY  # loads pydantic

    # `-m` alone searches the working directory first: a user's `types.py` there would
    # replace that of Python. See `search_working_directory`.
    safe = ["-P", "-X", WORKING_DIRECTORY] if not sys.flags.safe_path else []
    command = [sys.executable, *safe, "-m", module, *words]
    os.execv(sys.executable, command)  # noqa: S606, TID251 -- our program, no shell


def naming_file(text: str, file: str, line: str = "") -> str:
    """Return a text whose commands name the state file, to be copied as they are.

    `line` starts the run of the file again, in place of commands that need a worker;
    empty: it runs.
    """
    if not file:
        return text
    if line:
        text = _NEEDS_WORKER.sub(lambda _: line, text)
    return _COMMAND.sub(lambda at: f"{at[0]} {FLAG} {shlex.quote(file)}", text)


def state_option() -> Any:
    """Return the option that names the state file of a run."""
    alone = typer.Typer(add_completion=False, rich_markup_mode=None)
    alone.command()(declare)
    found = typer.main.get_command(alone).params
    return next(each for each in found if each.name == "state")


def become_reader(
    ctx: typer.Context, param: typer.CallbackParam, value: str | None
) -> None:
    """Let the program of the state file run this command line without the option."""
    del param
    if value is None or ctx.resilient_parsing:
        return
    words = list(sys.argv[1:])
    for at, word in enumerate(words):
        if word == FLAG:
            del words[at : at + 2]
            break
        if word.startswith(f"{FLAG}="):
            del words[at]
            break
    become(STATE_PROGRAM, [value, *words])


def declare(
    state: Annotated[
        str | None,
        typer.Option(
            FLAG,
            metavar="FILE",
            help="Work on the state file of `piecework run`.",
            callback=become_reader,
            expose_value=False,
            show_default=False,
            is_eager=True,
        ),
    ] = None,
) -> None:
    """Declare the option; its callback does the work."""
