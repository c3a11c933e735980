"""The settings of the templates agree, and each rule notices when they do not."""

from __future__ import annotations

import pytest

from piecework_orchestrator.infra.templates import Part
from tests.infra.check.fixtures import load_fixtures
from tests.infra.check.rules import RULES, broken
from tests.infra.check.rules.rule import LISTS, settings
from tests.infra.check.templates import Templates, load


@pytest.fixture(scope="module")
def templates() -> Templates:
    """Return all templates; rendered once, as far as they are looked at."""
    return load()


def test_the_templates_keep_to_the_rules(templates: Templates) -> None:
    assert {} == broken(templates)


def test_each_rule_refuses_what_breaks_it(templates: Templates) -> None:
    fixtures = load_fixtures()

    assert {name for name, rule in RULES.items() if rule not in LISTS} == {
        fixture.rule for fixture in fixtures
    }
    assert [] == [
        fixture.name
        for fixture in fixtures
        if next(RULES[fixture.rule](fixture.applied(templates)), None) is None
    ]


@pytest.mark.parametrize(
    ("what", "place", "wanted"),
    [
        ("WorkQueue", "VisibilityTimeout", 91),
        ("WorkQueue", "VisibilityTimeuot", 90),
        ("WorkQeue", "VisibilityTimeout", 90),
        ("Bucket", "PublicAccessBlockConfiguration.BlockPublicAcls", 1),
        ("AWS::ECS::TaskDefinition/ContainerDefinitions", "ReadonlyRootFilesystem", 0),
    ],
)
def test_a_list_of_settings_notices_another_value_and_a_thing_that_is_not_there(
    templates: Templates, what: str, place: str, wanted: object
) -> None:
    assert next(settings(what, {place: wanted})(templates))


def test_the_templates_are_those_of_the_seven_stacks(templates: Templates) -> None:
    assert set(Part) == templates.parsed.keys()
