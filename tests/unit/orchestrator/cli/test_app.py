"""The table of commands matches the commands themselves."""

from __future__ import annotations

import shlex
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

import piecework_simulation.__main__
import piecework_simulation.ask_command
import piecework_simulation.dev_command
import piecework_simulation.push_command
import piecework_simulation.run_command
import piecework_worker.__main__
from piecework_orchestrator.cli.app import (
    COMMANDS,
    GROUPS,
    LazyCommand,
    Row,
    app,
    run_alone,
)
from piecework_orchestrator.cli.examples import EXAMPLES, examples_of
from tests.unit.orchestrator.cli.deployment import Deployment

#: The parsers of the commands that become another program.
PROGRAMS: dict[str, Any] = {
    "ask": typer.main.get_command(piecework_simulation.ask_command.app),
    "run": typer.main.get_command(piecework_simulation.run_command.app),
    "dev": typer.main.get_command(piecework_simulation.dev_command.app),
    "push": typer.main.get_command(piecework_simulation.push_command.app),
    "simulate": typer.main.get_command(piecework_simulation.__main__.app),
    "worker": piecework_worker.__main__.make_parser(),
}

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


@pytest.mark.parametrize("words", [*COMMANDS, *GROUPS, ""])
def test_each_help_page_has_two_examples(words: str) -> None:
    """An example stands on one line of 80 columns."""
    if words == "worker":
        shown = PROGRAMS[words].format_help()
    elif program := PROGRAMS.get(words):
        shown = program.get_help(
            program.make_context(words, [], resilient_parsing=True)
        )
    else:
        shown = CliRunner().invoke(app, [*words.split(), "--help"]).stdout
    lines = [line.strip() for line in shown.splitlines() if len(line) <= 80]
    examples = [line for line in lines if line in EXAMPLES]
    assert examples == examples_of(words)[: len(examples)]
    assert len(set(examples)) >= 2, f"add two examples of {words!r} to examples.py"


@pytest.mark.parametrize("line", EXAMPLES)
def test_each_example_is_a_correct_command(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("prod.yaml").touch()
    words = shlex.split(line.partition(" > ")[0].partition(" && ")[0])[1:]
    name = max((n for n in COMMANDS if n.split() == words[: len(n.split())]), key=len)
    rest = words[len(name.split()) :]
    if name == "worker":
        assert PROGRAMS[name].parse_args(rest)
    else:
        command = PROGRAMS.get(name) or LazyCommand(name, COMMANDS[name])
        with command.make_context(name, rest) as context:
            assert context.params


def test_no_example_is_without_its_command() -> None:
    assert sorted(EXAMPLES) == sorted(
        line for name in COMMANDS for line in examples_of(name)
    )


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("jobs list --status pa", ["partial", "paused"]),
        ("chunks list a --status DE", ["DEAD"]),
        ("jobs show 26", ["261124-a", "261123-b"]),
        ("jobs explain --tenant acme 26", ["261122-c"]),
        ("dlq list --job 261123", ["261123-b"]),
        ("dlq list --code llm.http.429", ["llm.http.429_rate_limited"]),
        ("explain-code llm.http.429", ["llm.http.429_rate_limited"]),
        ("jobs ev", ["events"]),
    ],
)
def test_words_are_completed(
    here: Deployment, shell: str, line: str, found: list[str]
) -> None:
    here.job("261123-b", "RUNNING", 1, "2026-11-23T00:00:00.000Z")
    here.job("261124-a", "RUNNING", 1, "2026-11-24T00:00:00.000Z")
    listed = "T#acme#JOBS"
    here.table.add(listed, "2026-11-22T00:00:00.000Z#261122-c", pipeline="toy")
    whole = f"piecework {line}"
    variables = {
        "_PIECEWORK_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": whole,
        "COMP_CWORD": str(len(whole.split()) - 1),
        "_TYPER_COMPLETE_ARGS": whole,
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        "PIECEWORK_TENANT": "default",
    }
    done = CliRunner().invoke(app, [], env=variables, prog_name="piecework")
    for word in found:
        assert word in done.stdout
    assert "261122-c" in found or "261122-c" not in done.stdout
    assert "SUCCEEDED" not in done.stdout


@pytest.mark.parametrize("words", [w for w, row in COMMANDS.items() if row.program])
def test_a_process_of_its_own_reports_an_error_of_usage_as_the_others_do(
    words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["piecework", "--no-such-option"])
    module = sys.modules[place_of(COMMANDS[words])]
    alone = partial(run_alone, getattr(module, "app", None), f"piecework {words}")
    run = module.main if words == "worker" else alone
    with pytest.raises(SystemExit) as ended:
        run()
    said = capsys.readouterr()
    assert (2, "") == (ended.value.code, said.out)
    assert said.err.startswith("error cli.usage.invalid: ")
    assert f"\nnext: piecework {words} --help\n" in said.err


def place_of(row: Row) -> str:
    """Return the module that a program starts with."""
    name = row.place
    return name if name in sys.modules and "_command" in name else f"{name}.__main__"
