"""The page of the templates names each of them, and each parameter that is its own."""

from __future__ import annotations

import re

import pytest

from tests.docs.pages import ROOT
from tests.infra.check.documented import HEADING
from tests.infra.check.rules import RULES
from tests.infra.check.templates import load

PAGE = (ROOT / "docs/infrastructure.md").read_text("utf-8")
TEMPLATES = load().parsed


def test_each_template_is_in_the_list() -> None:
    named = re.findall(r"^\| `(\w+)\.yaml` \|", PAGE, re.MULTILINE)
    assert sorted(TEMPLATES) == sorted(named)


@pytest.mark.parametrize("name", ["data", "network", "service"])
def test_each_parameter_is_in_the_section_of_its_template(name: str) -> None:
    _, _, after = PAGE.partition(f"## {name}.yaml\n")
    section, _, _ = after.partition("\n## ")
    rows = [row.split("|")[1] for row in section.splitlines() if row.startswith("| `")]
    named = {word for row in rows for word in re.findall(r"`(\w+)`", row)}
    choices = {"nat", "public", "none"}  # a table of their own
    assert TEMPLATES[name]["Parameters"].keys() - {"App", "Env"} == named - choices


def test_what_is_held_by_a_rule_is_held_by_one_that_there_is() -> None:
    _, _, section = PAGE.partition(HEADING)
    named = [
        rule.strip()
        for rules in re.findall(r"\| rules: (.*) \|$", section, re.MULTILINE)
        for rule in rules.split(";")
    ]
    assert named
    assert [] == [rule for rule in named if rule not in RULES]
