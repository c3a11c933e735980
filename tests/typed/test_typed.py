"""Guarantee: a type checker names a wrong payload, argument, row and result."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from piecework_orchestrator.cli.init import read_starter

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
FILES = [str(FOLDER / "right.py"), str(FOLDER / "wrong.py")]
MARKED = {
    ("wrong.py", number)
    for number, line in enumerate((FOLDER / "wrong.py").read_text().splitlines(), 1)
    if line.endswith("# wrong")
}
MYPY_LINE = re.compile(r"(?:.*/)?(\w+\.py):(\d+): error: .*")


def output_of(*words: str) -> str:
    """Run a checker, which fails if it finds an error; return its output."""
    command = [sys.executable, "-m", *words]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout


@pytest.fixture
def projects(tmp_path: Path) -> list[str]:
    """Write each project of `piecework init`, its modules under names of their own."""
    for starter in ("plain", "llm", "saga"):
        for name, text in read_starter(starter, starter):
            named = name.replace("app", f"app_{starter}")
            renamed = text.replace("from app import", f"from app_{starter} import")
            (tmp_path / named).write_text(renamed, "utf-8")
    return [str(path) for path in sorted(tmp_path.glob("*.py"))]


def test_mypy_finds_each_wrong_line_and_none_in_a_new_project(
    projects: list[str],
) -> None:
    """Our settings are as strict as those of a new project, and have a warm cache."""
    said = output_of("mypy", "--strict", *FILES, *projects)
    found = map(MYPY_LINE.fullmatch, said.splitlines())
    assert MARKED == {(each[1], int(each[2])) for each in found if each}, said
    assert 6 == len(projects)


def test_pyright_finds_each_wrong_line() -> None:
    options = ("--project", str(FOLDER / "pyright.json"), "--pythonpath")
    said = output_of("basedpyright", "--outputjson", *FILES, *options, sys.executable)
    assert MARKED == {
        (Path(each["file"]).name, each["range"]["start"]["line"] + 1)
        for each in json.loads(said)["generalDiagnostics"]
        if each["severity"] == "error"
    }
