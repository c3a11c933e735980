from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

import simulation.__main__
import workers.__main__
from orchestrator.cli.app import app
from orchestrator.intake.manifest import is_manifest
from piecework.settings import Settings
from tests.docs.pages import (
    PAGES,
    ROOT,
    each_page,
    fenced,
    shell_lines,
    spans,
)

#: The commands that hand their arguments on to a program of its own.
PROGRAMS = {
    "worker": typer.main.get_command(workers.__main__.app),
    "simulate": typer.main.get_command(simulation.__main__.app),
}
COMMAND = re.compile(r"(?:^|[\s(`'\"])piecework((?: [\w.:/-]+)+)")


@each_page
def test_every_command_that_is_named_exists(page: Path) -> None:
    places = [*spans(page), *shell_lines(page)]
    named = [words.split() for text in places for words in COMMAND.findall(text)]

    assert [] == [f"piecework {' '.join(words)}" for words in named if not known(words)]


def known(words: list[str]) -> bool:
    """Say whether the words begin with a whole command."""
    command, rest = found(words)
    placeholder = bool(rest) and rest[0].isupper()
    options = {option for parameter in command.params for option in parameter.opts}
    whole = not hasattr(command, "commands") or not rest or rest[0] in options
    return whole or placeholder


def found(words: list[str]) -> tuple[Any, list[str]]:
    """Return the command that the words name, and the words after it."""
    command: Any = typer.main.get_command(app)
    rest = list(words)
    while rest and rest[0] in getattr(command, "commands", {}):
        command = command.commands[rest.pop(0)]
    return PROGRAMS.get(command.name, command), rest


@each_page
def test_what_is_submitted_from_a_bucket_is_a_manifest(page: Path) -> None:
    lines = [line for line in shell_lines(page) if "submit" in line]
    sources = [name for line in lines for name in re.findall(r"s3://[^\s\"'`]+", line)]

    assert [] == [name for name in sources if not is_manifest(name)]


@pytest.mark.parametrize("words", ["jobs explode NAME", "explode", "dlq explode"])
def test_a_command_that_does_not_exist_is_noticed(words: str) -> None:
    assert not known(words.split())


@each_page
def test_every_option_that_is_named_exists(page: Path) -> None:
    wrong = [
        f"{option} in: {line.strip()}"
        for line in [*shell_lines(page), *spans(page)]
        for words, options in asked_of_piecework(line)
        for option in options
        if option not in options_of(words)
    ]

    assert [] == wrong


def asked_of_piecework(line: str) -> Iterator[tuple[list[str], list[str]]]:
    """Yield the words and the options of each of our commands in a line."""
    line = line.partition(" # ")[0].partition(">")[0]
    for part in re.split(r"[;|&]+", line):
        if re.match(r"\s*piecework ", part):
            words = part.split()[1:]
            yield words, [w for w in words if re.fullmatch(r"--?[a-z][a-z-]*", w)]


def options_of(words: list[str]) -> set[str]:
    command, _ = found(words)
    declared = {o for p in command.params for o in (*p.opts, *p.secondary_opts)}
    return {"--help"} | declared


def test_an_option_that_does_not_exist_is_noticed() -> None:
    ((words, options),) = asked_of_piecework("piecework jobs list --explode")

    assert ["--explode"] == options
    assert "--explode" not in options_of(words)
    assert "--output" in options_of(words)


@each_page
def test_every_make_target_that_is_named_exists(page: Path) -> None:
    targets = set(
        re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    )
    places = [*spans(page), *fenced(page, "sh")]
    named = {t for p in places for t in re.findall(r"^make ([a-z-]+)", p, re.MULTILINE)}

    assert set() == named - targets


def test_every_setting_that_a_page_names_exists() -> None:
    places = [text for page in PAGES for text in [page.read_text("utf-8")]]
    named = {
        n for text in places for n in re.findall(r"PIECEWORK_([A-Z_]+[A-Z])", text)
    }
    others = {"STATE_DIR", "CACHE_DIR", "LOG_LEVEL", "CONFORMANCE_ENDPOINT"}

    assert set() == {n.lower() for n in named - others} - set(Settings.model_fields)


def test_the_commands_for_the_aws_cli_are_well_formed() -> None:
    page = ROOT / "docs/tables.md"
    asked = [line for line in shell_lines(page) if line.startswith("aws ")]
    operations = {tuple(line.split()[1:3]) for line in asked}

    assert {
        ("dynamodb", "get-item"),
        ("dynamodb", "query"),
        ("dynamodb", "scan"),
        ("s3", "cp"),
        ("s3", "ls"),
        ("sqs", "get-queue-attributes"),
    } == operations
    assert [] == [line for line in asked if line.count("'") % 2]
