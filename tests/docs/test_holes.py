"""The list of holes: complete, and each test that it names is there."""

from __future__ import annotations

import re

from tests.docs.pages import ROOT

PAGE = (ROOT / "docs/holes.md").read_text("utf-8")
PLACES = re.compile(r"`(tests/[\w/]+\.py)`((?:: `test_\w+`)?(?:, `test_\w+`)*)")


def test_each_hole_stands_there_once() -> None:
    rows = re.findall(r"^\| (H\d+) \|", PAGE, re.MULTILINE)

    assert [f"H{n}" for n in range(1, 55)] == rows


def test_each_test_that_is_named_is_in_the_file_that_is_named() -> None:
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
