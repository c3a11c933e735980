"""The tutorial and the guide for agents: their files and commands do what they say."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.docs.pages import ROOT

#: The files that each page lets its reader write.
FILES = {
    "tutorial": ["reviews.py", "test_reviews.py", "reviews.jsonl"],
    "agents": ["app.py", "test_app.py", "rows.jsonl"],
}
FILE = re.compile(
    r"Save this as `([\w.]+)`[^\n]*\n\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL
)
BLOCK = re.compile(r"^```(sh|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MARK = "end of block"


class Step(NamedTuple):
    """Commands of the page, and the lines that they have to print."""

    commands: str
    printed: list[str]


def text_of(page: str) -> str:
    return (ROOT / f"docs/{page}.md").read_text("utf-8")


def steps(page: str) -> list[Step]:
    """Return the commands of the page with the output that follows them."""
    found: list[Step] = []
    for language, body in BLOCK.findall(text_of(page)):
        if language == "sh":
            found.append(Step(body, []))
        else:
            found[-1].printed.extend(body.splitlines())
    return found


@pytest.mark.parametrize("page", FILES)
def test_the_page_has_files_and_commands(page: str) -> None:
    assert FILES[page] == [name for name, _ in FILE.findall(text_of(page))]
    assert len(steps(page)) >= 3


def test_the_guide_for_agents_is_one_page() -> None:
    assert len(text_of("agents").split()) <= 600


@pytest.mark.slow
@pytest.mark.parametrize("page", FILES)
def test_the_commands_of_the_page_print_what_it_shows(
    page: str, tmp_path: Path, emulator_python: Path
) -> None:
    folder = tmp_path / page
    folder.mkdir()
    for name, body in FILE.findall(text_of(page)):
        (folder / name).write_text(body)
    script = "".join(f"{step.commands}echo '{MARK}'\n" for step in steps(page))
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "COLUMNS": "120"}
    environment["PIECEWORK_STATE_DIR"] = str(folder / ".piecework")

    try:
        run(script, folder, environment, 270)
    finally:
        run("piecework down", folder, environment, 20)

    blocks = (folder / "out.txt").read_text().split(f"{MARK}\n")
    missing = [
        f"{line!r} after:\n{step.commands}\nwhich printed:\n{printed}"
        for step, printed in zip(steps(page), blocks, strict=False)
        for line in step.printed
        if line not in printed
    ]
    assert len(blocks) == len(steps(page)) + 1
    assert [] == missing


def run(script: str, folder: Path, environment: dict[str, str], limit_s: float) -> None:
    """Run commands as a user's shell does; append what they print to `out.txt`."""
    with (folder / "out.txt").open("a") as out:
        shell = subprocess.Popen(
            ["/bin/bash", "-c", script],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            shell.wait(limit_s)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGKILL)
            shell.wait()
