"""The settings that must agree, as rules over the templates: each by its sentence."""

from __future__ import annotations

from tests.infra.check.rules import (
    data,
    everywhere,
    networks,
    policies,
    tasks,
    triggers,
)
from tests.infra.check.rules.rule import Rule
from tests.infra.check.templates import Templates

RULES: dict[str, Rule] = {
    **data.RULES,
    **policies.RULES,
    **networks.RULES,
    **tasks.RULES,
    **triggers.RULES,
    **everywhere.RULES,
}


def broken(templates: Templates) -> dict[str, str]:
    """Return the rules that do not hold, each with the first thing against it."""
    found = {said: next(check(templates), None) for said, check in RULES.items()}
    return {said: why for said, why in found.items() if why is not None}
