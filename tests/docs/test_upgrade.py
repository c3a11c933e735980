"""The page of upgrades gives no advice that is not a row of the drill."""

from __future__ import annotations

import re

from tests.docs.pages import ROOT
from verification.deployments.changes import changes

PAGE = (ROOT / "docs/upgrade.md").read_text("utf-8")


def test_each_row_of_the_page_is_one_of_the_drill_and_each_of_the_drill_is_there() -> (
    None
):
    _, _, below = PAGE.partition("| change | rows of the drill |")
    lines = [line for line in below.partition("\n\n")[0].splitlines() if "`" in line]
    named = [re.findall(r"`([a-z-]+)`", line.split(" | ")[1]) for line in lines]
    known = {change.name for change in changes()} - {"nothing"}

    assert len(lines) >= 20
    assert all(named)
    assert sorted(known) == sorted(name for names in named for name in names)
