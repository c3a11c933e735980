"""The table of commands matches the commands themselves."""

from __future__ import annotations

import pytest
import typer.main

from piecework_orchestrator.cli.app import COMMANDS, GROUPS, LazyCommand, Row, app

LOADED = {words: row for words, row in COMMANDS.items() if not row.program}


@pytest.mark.parametrize("words", LOADED)
def test_the_help_of_the_table_is_the_first_sentence_of_the_command(words: str) -> None:
    loaded = LazyCommand(words.rsplit(maxsplit=1)[-1], LOADED[words]).load()

    assert LOADED[words].help == loaded.get_short_help_str(1000)


def test_every_command_of_the_table_is_on_the_command_line_once() -> None:
    root = typer.main.get_command(app)
    alone = [name for name in root.commands if name not in GROUPS]  # type: ignore[attr-defined]
    grouped = [
        f"{group} {name}"
        for group in GROUPS
        for name in root.commands[group].commands  # type: ignore[attr-defined]
    ]

    assert list(COMMANDS) == [*alone, *grouped]


def test_a_command_keeps_its_whole_help_and_its_options() -> None:
    loaded = LazyCommand("watch", COMMANDS["jobs watch"]).load()

    assert "The exit code is 0" in loaded.help
    own = {each.name for each in loaded.params if each.expose_value}
    assert {"job", "timeout", "output"} == own


def test_a_command_whose_function_is_missing_fails_when_it_is_used() -> None:
    command = LazyCommand("x", Row("jobs:no_such_function", "Do nothing."))

    with pytest.raises(AttributeError):
        command.make_context("x", [])
