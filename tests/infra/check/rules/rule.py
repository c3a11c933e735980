"""A rule is a sentence, and a function that yields what goes against it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from tests.infra.check.templates import Templates

Rule: TypeAlias = Callable[[Templates], Iterator[str]]

#: Every rule, by its sentence, in the order of the files.
RULES: dict[str, Rule] = {}


def rule(check: Rule) -> Rule:
    """Register a rule; its function's name is its sentence."""
    RULES[check.__name__.replace("_", " ")] = check
    return check


def broken(templates: Templates) -> dict[str, str]:
    """Return the rules that do not hold, each with the first thing against it."""
    found = {said: next(check(templates), None) for said, check in RULES.items()}
    return {said: why for said, why in found.items() if why is not None}
