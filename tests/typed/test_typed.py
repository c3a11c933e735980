"""Guarantee: a type checker names a wrong payload, argument, row and result."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
FILES = [str(FOLDER / "right.py"), str(FOLDER / "wrong.py")]
MYPY_LINE = re.compile(r"(?:.*/)?(\w+\.py):(\d+): error: .*")


def output_of(command: list[str]) -> str:
    """Run a checker, which fails if it finds an error; return its output."""
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout


def errors_of_mypy() -> set[tuple[str, int]]:
    """Return file and line of each error that mypy finds."""
    command = [sys.executable, "-m", "mypy", "--strict", *FILES]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False
    )
    found = map(MYPY_LINE.fullmatch, done.stdout.splitlines())
    return {(each[1], int(each[2])) for each in found if each}


def errors_of_pyright() -> set[tuple[str, int]]:
    """Return file and line of each error that pyright finds."""
    command = [sys.executable, "-m", "basedpyright", "--outputjson", *FILES]
    command += ["--project", str(FOLDER / "pyright.json")]
    command += ["--pythonpath", sys.executable]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False
    )
    found = json.loads(done.stdout)["generalDiagnostics"]
    return {
        (Path(each["file"]).name, each["range"]["start"]["line"] + 1)
        for each in found
        if each["severity"] == "error"
    }


@pytest.mark.parametrize("errors", [errors_of_mypy, errors_of_pyright])
def test_each_wrong_line_is_an_error_and_no_other(
    errors: Callable[[], set[tuple[str, int]]],
) -> None:
    lines = (FOLDER / "wrong.py").read_text("utf-8").splitlines()
    marked = {
        ("wrong.py", number)
        for number, line in enumerate(lines, 1)
        if line.endswith("# wrong")
    }
    assert errors() == marked
