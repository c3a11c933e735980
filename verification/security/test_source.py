"""What ruff's banned API of `pyproject.toml` cannot see: built-ins, and a shell."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
UNSEEN = re.compile(r"(?<![\w.])(?:__import__|compile)\(|\bshell=(?!False)")


def test_no_text_becomes_code_or_a_program() -> None:
    files = [
        path
        for package in ("piecework", "workers", "orchestrator")
        for path in (ROOT / package).rglob("*.py")
    ]

    assert files
    assert [] == [path for path in files if UNSEEN.search(path.read_text("utf-8"))]
    assert UNSEEN.search("x = __import__(name)")
    assert UNSEEN.search("run(x, shell=flag)")
