"""The page of hazards is complete, and each test and name that it cites exists."""

from __future__ import annotations

import re

from tests.docs.pages import ROOT

PAGE = (ROOT / "docs/hazards.md").read_text("utf-8")
PLACES = re.compile(r"`(tests/[\w/]+\.py)`((?:: `test_\w+`)?(?:, `test_\w+`)*)")
NAMES = re.compile(r"((?:`\w+`(?:, | and )?)+) in `([\w/]+\.py)`")


def test_each_hazard_has_one_row() -> None:
    rows = re.findall(r"^\| (H\d+) \|", PAGE, re.MULTILINE)

    assert [f"H{n}" for n in range(1, 55)] == rows


def test_each_cited_test_is_in_its_file() -> None:
    named = {
        (file, test)
        for file, tests in PLACES.findall(PAGE)
        for test in re.findall(r"test_\w+", tests)
    }
    missing = sorted(
        (file, test)
        for file, test in named
        if f"def {test}(" not in (ROOT / file).read_text("utf-8")
    )

    assert [] == missing
    assert set(re.findall(r"`(test_\w+)`", PAGE)) == {test for _, test in named}


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
