"""The page of hazards is complete, and each name that it cites exists."""

from __future__ import annotations

import re

from tests.docs.clauses import CLAUSES
from tests.docs.pages import ROOT

PAGE = (ROOT / "docs/hazards.md").read_text("utf-8")
NAMES = re.compile(r"((?:`\w+`(?:, | and )?)+) in `([\w/]+\.py)`")


def test_each_hazard_has_one_row() -> None:
    rows = re.findall(r"^\| (H\d+) \|", PAGE, re.MULTILINE)

    assert [f"H{n}" for n in range(1, 55)] == rows


def test_each_hazard_has_a_test_or_another_check() -> None:
    rows = re.findall(r"^\| (H\d+) \|.*\| (.+) \|$", PAGE, re.MULTILINE)
    invariants = re.findall(r"^\| ([IL]\d+) \|", PAGE, re.MULTILINE)
    known = {*invariants, *(row for row, _ in rows)}

    assert [] == [row for row, check in rows if row not in CLAUSES and check == "-"]
    assert {row for row in CLAUSES if row[0] != "0"} <= known
    assert [] == re.findall(r"`test_\w+`", PAGE)


def test_each_cited_name_is_in_its_file() -> None:
    named = [
        (file, name)
        for names, file in NAMES.findall(PAGE)
        for name in re.findall(r"`(\w+)`", names)
    ]
    missing = [
        (file, name)
        for file, name in named
        if not re.search(rf"\b{name}\b", (ROOT / file).read_text("utf-8"))
    ]

    assert len(named) >= 40
    assert [] == missing
