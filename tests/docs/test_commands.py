"""The commands, options and settings that the pages name exist in the code."""

from __future__ import annotations

import ast
import math
import re
import shlex
from argparse import ArgumentParser
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import typer.main

import piecework_simulation.__main__
import piecework_simulation.dev_command
import piecework_simulation.run_command
import piecework_worker.__main__
from piecework.settings import Settings
from piecework_orchestrator.cli.app import LazyCommand, app
from tests.docs.pages import PAGES, ROOT, fenced, on_every_page, shell_lines, spans

#: The commands that pass their arguments to a program of its own.
PROGRAMS = {
    "dev": typer.main.get_command(piecework_simulation.dev_command.app),
    "run": typer.main.get_command(piecework_simulation.run_command.app),
    "worker": piecework_worker.__main__.make_parser(),
    "simulate": typer.main.get_command(piecework_simulation.__main__.app),
}
COMMAND = re.compile(r"(?:^|[\s(`'\"])piecework((?: [\w.:/-]+)+)")


@cache
def root_command() -> Any:
    """Build the tree of commands once; it takes a tenth of a second."""
    return typer.main.get_command(app)


def find_command(words: list[str]) -> tuple[Any, list[str]]:
    """Return the command that the words name, and the words after it."""
    command = root_command()
    rest = list(words)
    while rest and rest[0] in getattr(command, "commands", {}):
        command = command.commands[rest.pop(0)]
    return whole_command(command), rest


@cache
def whole_command(command: Any) -> Any:
    """Load a command once; the table has only its first sentence."""
    if command.name in PROGRAMS:
        return PROGRAMS[command.name]
    return command.load() if isinstance(command, LazyCommand) else command


def is_known(words: list[str]) -> bool:
    """Return whether the words begin with a whole command."""
    command, rest = find_command(words)
    if not hasattr(command, "commands") or not rest:
        return True
    return rest[0].isupper() or rest[0] in options_of(words)  # a placeholder: JOB


def commands_in(line: str) -> Iterator[tuple[list[str], list[str]]]:
    """Yield the words and the options of each `piecework` command in a line."""
    line = line.partition(" # ")[0].partition(">")[0]
    for part in re.split(r"[;|&]+", line):
        if re.match(r"\s*piecework ", part):
            words = part.split()[1:]
            yield words, [w for w in words if re.fullmatch(r"--?[a-z][a-z-]*", w)]


def options_of(words: list[str]) -> set[str]:
    """Return the options of the command that the words name."""
    command, _ = find_command(words)
    if isinstance(command, ArgumentParser):
        return {o for action in command._actions for o in action.option_strings}
    declared = {o for p in command.params for o in (*p.opts, *p.secondary_opts)}
    return {"--help"} | declared


def unknown_commands(page: Path) -> list[str]:
    texts = [*spans(page), *shell_lines(page)]
    named = [words.split() for text in texts for words in COMMAND.findall(text)]
    return [f"piecework {' '.join(words)}" for words in named if not is_known(words)]


def test_every_command_that_is_named_exists() -> None:
    assert [] == on_every_page(unknown_commands)


# ── commands in error codes, messages and help texts ────────────────────────

PRODUCT = ("piecework", "workers", "orchestrator", "simulation", "examples")
#: A command in a text: between backticks, after `next: `, or the whole text.
NAMED = re.compile(r"`(piecework [^`]+)`|(?:^|next: )(piecework [^`;]+)")


def texts_of(node: ast.AST) -> Iterator[str]:
    """Yield the texts in code; a whole word that an f-string inserts reads `X`."""
    if isinstance(node, ast.JoinedStr):
        text = ""
        for part in node.values:
            is_word = not text[-1:].isalnum()
            inserted = "X" if is_word else ""
            text += str(part.value) if isinstance(part, ast.Constant) else inserted
        yield text
        return
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    for child in ast.iter_child_nodes(node):
        yield from texts_of(child)


def wrong_parts(text: str) -> list[str]:
    """Return what a command of a text has that the tree of commands does not."""
    found = []
    for quoted, plain in NAMED.findall(re.sub(r"\n\s*", " ", text)):
        words = re.split(r"  |, then | > | && ", quoted or plain)[0].split()[1:]
        if not is_known(words):
            found.append(f"piecework {' '.join(words)}")
        command, _ = find_command(words)
        if hasattr(command, "commands"):
            continue  # the text has a placeholder for the command
        options = {w for w in words if re.fullmatch(r"--?[a-z][a-z-]*", w)}
        found += [f"{o} of {words}" for o in sorted(options - options_of(words))]
        parsed = not isinstance(command, ArgumentParser)  # whose test parses them
        if parsed and positional(words) > places(words):
            found.append(f"an argument too many: {words}")
    return found


def positional(words: list[str]) -> int:
    """Count the words of a command that are neither options nor their values."""
    command, rest = find_command(words)
    flags = {
        option
        for param in command.params
        if getattr(param, "is_flag", False)
        for option in (*param.opts, *param.secondary_opts)
    }
    count, skip = 0, False
    for word in shlex.split(" ".join(rest), comments=True):
        is_option = word.startswith("-")
        count += not (skip or is_option)
        skip = is_option and word not in flags | {"--help"} and "=" not in word
    return count


def places(words: list[str]) -> float:
    """Return how many arguments a command takes."""
    command, _ = find_command(words)
    counts = [p.nargs for p in command.params if p.param_type_name == "argument"]
    return math.inf if -1 in counts else sum(counts)


def test_every_command_in_a_message_exists() -> None:
    sources = [path for name in PRODUCT for path in (ROOT / name).rglob("*.py")]
    texts = [
        (path.relative_to(ROOT).as_posix(), text)
        for path in sources
        for text in texts_of(ast.parse(path.read_text("utf-8")))
    ]

    assert 80 <= sum(bool(NAMED.search(text)) for _, text in texts)
    assert [] == [(name, w) for name, text in texts for w in wrong_parts(text)]


def unknown_options(page: Path) -> list[str]:
    return [
        f"{option} in: {line.strip()}"
        for line in [*shell_lines(page), *spans(page)]
        for words, options in commands_in(line)
        for option in options
        if option not in options_of(words)
    ]


def test_every_option_that_is_named_exists() -> None:
    assert [] == on_every_page(unknown_options)


def unknown_targets(page: Path) -> list[str]:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    texts = [*spans(page), *fenced(page, "sh")]
    named = {t for p in texts for t in re.findall(r"^make ([a-z-]+)", p, re.MULTILINE)}
    return sorted(named - targets)


def test_every_make_target_that_is_named_exists() -> None:
    assert [] == on_every_page(unknown_targets)


def test_every_setting_that_a_page_names_exists() -> None:
    texts = [page.read_text("utf-8") for page in PAGES]
    named = {n for text in texts for n in re.findall(r"PIECEWORK_([A-Z_]+[A-Z])", text)}
    others = {"STATE_DIR", "CACHE_DIR", "LOG_LEVEL", "CONFORMANCE_ENDPOINT", "UI_TOKEN"}
    # Variables of users, to which webhooks refer.
    others |= {"WEBHOOK", "WEBHOOK_SECRET", "WEBHOOK_SLACK", "WEBHOOK_ANSWER_SECRET"}

    assert set() == {n.lower() for n in named - others} - {
        each.name for each in fields(Settings)
    }
