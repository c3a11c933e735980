"""The settings of the templates agree, and each rule notices when they do not."""

from __future__ import annotations

import pytest

from tests.infra.check.fixtures import Fixture, load_fixtures
from tests.infra.check.rules import RULES
from tests.infra.check.templates import Templates, load

FIXTURES = load_fixtures()


@pytest.fixture(scope="module")
def templates() -> Templates:
    """Return all templates; rendered once, as far as they are looked at."""
    return load()


@pytest.mark.parametrize("said", RULES)
def test_the_templates_keep_to_the_rule(said: str, templates: Templates) -> None:
    assert [] == list(RULES[said](templates))


@pytest.mark.parametrize("fixture", FIXTURES, ids=lambda fixture: fixture.name)
def test_a_rule_refuses_what_breaks_it(fixture: Fixture, templates: Templates) -> None:
    broken = fixture.applied(templates)
    assert next(RULES[fixture.rule](broken), None) is not None


def test_every_rule_has_something_to_refuse() -> None:
    assert {fixture.rule for fixture in FIXTURES} == set(RULES)


def test_the_templates_are_those_of_the_six_stacks(templates: Templates) -> None:
    expected = {"alarms", "data", "network", "roles", "scaling", "service"}
    assert expected == templates.parsed.keys()
