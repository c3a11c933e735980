"""The commands, options and settings that the pages name exist in the code."""

from __future__ import annotations

import ast
import os
import re
import shlex
import subprocess
import sys
from argparse import ArgumentError, ArgumentParser
from collections.abc import Iterator
from dataclasses import fields
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import typer.main

import piecework_simulation.__main__
import piecework_simulation.ask_command
import piecework_simulation.dev_command
import piecework_simulation.push_command
import piecework_simulation.run_command
import piecework_worker.__main__
from piecework.aws.endpoint import Emulator, find_endpoint
from piecework.domain.keys import JOIN_CHUNK
from piecework.domain.outcome import CompensationResult
from piecework.explain.situation import EFFECT_IN_DOUBT
from piecework.settings import Settings
from piecework.store.dead_letters import OPEN
from piecework_orchestrator.cli.app import LazyCommand, app
from piecework_orchestrator.cli.global_options import usage_error
from piecework_orchestrator.cli.views.dead_letters import next_command
from piecework_orchestrator.embedded import server
from tests.docs.pages import PAGES, ROOT, fenced, on_every_page, shell_lines, spans

#: The commands that pass their arguments to a program of its own.
PROGRAMS = {
    "ask": typer.main.get_command(piecework_simulation.ask_command.app),
    "dev": typer.main.get_command(piecework_simulation.dev_command.app),
    "push": typer.main.get_command(piecework_simulation.push_command.app),
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
#: A command in a text: between backticks, after `next: ` or `then `, or a whole text.
NAMED = re.compile(
    r"`(piecework [a-z][^`]+)`|(?:^|next: |then )(piecework [a-z][^`;]+)"
)
#: A value in a command, and those that it may have. Any other one may be `7`.
VALUE = re.compile(r"\{.*?(\w+)\W*?\}|\b(?:N|USD|CHUNK)\b|…")
VALUES = {"unit": ("usd", "tokens"), "part": ("data",), "name": ("7", "join")}
#: A dead letter, and the deaths whose next commands have parts of their own.
LETTER = {"job": "j", "state": OPEN, "error_code": "x"}
DEATHS = (
    {},
    {"error_code": EFFECT_IN_DOUBT, "effects_in_doubt": 1},
    {"compensation": CompensationResult.FAILED},
)


def texts_of(node: ast.AST) -> Iterator[str]:
    """Yield the texts in code; what an f-string inserts stands between braces."""
    if isinstance(node, ast.JoinedStr):
        yield "".join(
            str(part.value)
            if isinstance(part, ast.Constant)
            else f"{{{ast.unparse(part.value)}}}"
            for part in node.values
        )
        return
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    for child in ast.iter_child_nodes(node):
        yield from texts_of(child)


def commands_of(text: str) -> Iterator[list[str]]:
    """Yield the words of each command in a text, with sample values filled in."""
    for quoted, plain in NAMED.findall(re.sub(r"\n\s*", " ", text)):
        named = re.split(r"  |, then | > | && ", quoted or plain)[0]
        names = VALUES.keys() & VALUE.findall(named)
        for values in product(*(VALUES[name] for name in names)):
            known = dict(zip(names, values, strict=True))
            filled = VALUE.sub(partial(value_of, known), named)
            yield shlex.split(filled, comments=True)[1:]


def value_of(known: dict[str, str], found: re.Match[str]) -> str:
    """Return a sample of a value in a command."""
    return known.get(found[1] or "", "7")


def refusal(words: list[str]) -> str:
    """Return why the command line refuses a command; empty: it accepts it."""
    command, rest = find_command(words)
    if hasattr(command, "commands") or not rest or "--help" in rest:
        return "" if is_known(words) else "the command does not exist"
    try:
        if isinstance(command, ArgumentParser):
            command.exit_on_error = False
            command.parse_args(rest)
        else:
            command.make_context("piecework", rest).close()
    except (usage_error(), ArgumentError, SystemExit) as error:
        return str(error)
    return ""


def test_the_command_line_accepts_every_command_in_a_message() -> None:
    sources = [path for name in PRODUCT for path in (ROOT / name).rglob("*.py")]
    texts = [
        (path.relative_to(ROOT).as_posix(), text)
        for path in sources
        if path.name != "examples.py"  # whose test parses them
        for text in texts_of(ast.parse(path.read_text("utf-8")))
    ]
    texts += [
        ("next_command", next_command({**LETTER, **died, "chunk": chunk}))
        for died in DEATHS
        for chunk in (0, JOIN_CHUNK)
    ]
    commands = [(name, words) for name, text in texts for words in commands_of(text)]

    assert 300 <= len(commands)
    refused = [(name, words, refusal(words)) for name, words in commands]
    assert [] == [each for each in refused if each[2]]


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
    texts = [*spans(page), *fenced(page, "sh")]
    named = {t for p in texts for t in re.findall(r"^make ([a-z-]+)", p, re.MULTILINE)}
    return sorted(named - make_targets())


def make_targets() -> set[str]:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    return set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))


def test_every_make_target_that_is_named_exists() -> None:
    assert [] == on_every_page(unknown_targets)


def test_every_make_target_of_a_workflow_exists() -> None:
    workflows = (ROOT / ".github/workflows").glob("*.yml")
    texts = [path.read_text("utf-8") for path in (*workflows, ROOT / ".ci/run")]
    named = {t for text in texts for t in re.findall(r"\bmake ([a-z-]+)", text)}

    assert {"sbom", "image", "check"} <= named
    assert set() == named - make_targets()


def test_every_setting_that_a_page_names_exists() -> None:
    texts = [page.read_text("utf-8") for page in PAGES]
    named = {n for text in texts for n in re.findall(r"PIECEWORK_([A-Z_]+[A-Z])", text)}
    others = {"STATE_DIR", "CACHE_DIR", "LOG_LEVEL", "CONFORMANCE_ENDPOINT", "UI_TOKEN"}
    # Variables of users, to which webhooks refer.
    others |= {"WEBHOOK", "WEBHOOK_SECRET", "WEBHOOK_SLACK", "WEBHOOK_ANSWER_SECRET"}

    assert set() == {n.lower() for n in named - others} - {
        each.name for each in fields(Settings)
    }


def test_the_exports_of_the_pages_reach_the_embedded_aws(tmp_path: Path) -> None:
    (tmp_path / ".piecework").mkdir()
    found = Emulator(url := "http://127.0.0.1:1", 1, "us-east-1", "1", "k")
    server.write(tmp_path / ".piecework", found)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    for page, key in (("demo", "demo"), ("tables", "k")):
        lines = shell_lines(ROOT / "docs" / f"{page}.md")
        kept = [li for li in lines if li.startswith(("export ", "emulator()"))]
        script = ["/bin/sh", "-c", "\n".join([*kept, "env"])]
        said = subprocess.check_output(script, cwd=tmp_path, env={"PATH": path})
        environ = dict(line.split("=", 1) for line in said.decode().splitlines())
        assert url == find_endpoint(environ, tmp_path).url
        assert key == environ["AWS_ACCESS_KEY_ID"]
