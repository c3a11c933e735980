"""The page of guarantees: behind each one is a test that exists."""

from __future__ import annotations

import re

from tests.docs.pages import ROOT, prose

PAGE = ROOT / "docs/guarantees.md"
ROW = re.compile(r"^\| .+ \| `([\w/]+\.py)`: `(test_\w+)` \|$", re.MULTILINE)


def test_behind_every_guarantee_is_a_test() -> None:
    named = ROW.findall(prose(PAGE))
    missing = [f"{file}: {name}" for file, name in named if not has_test(file, name)]

    assert len(named) >= 40
    assert [] == missing


def test_every_row_of_the_tables_names_a_test() -> None:
    lines = [line for line in prose(PAGE).splitlines() if line.startswith("| ")]
    rows = [li for li in lines if not li.startswith(("| ---", "| guarantee"))]

    assert [] == [line for line in rows if not ROW.fullmatch(line)]


def has_test(file: str, name: str) -> bool:
    path = ROOT / file
    return path.is_file() and f"def {name}(" in path.read_text("utf-8")
