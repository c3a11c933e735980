"""Resolve our templates for one account and one set of parameters."""

from __future__ import annotations

from typing import Any

from tests.infra.check.render import PSEUDO, render
from tests.infra.check.templates import INFRA
from tests.infra.check.templates import read as parse

ACCOUNT, REGION = "000000000000", "us-east-1"
KNOWN = {**PSEUDO, "AWS::AccountId": ACCOUNT, "AWS::Region": REGION}


def read(name: str) -> dict[str, Any]:
    """Return a template as it is written."""
    return parse(INFRA / f"{name}.yaml")


def resources(name: str, **parameters: str) -> dict[str, dict[str, Any]]:
    """Return a template's resources by their logical names, without functions.

    Raises:
        ValueError: The template does not declare a parameter.
    """
    template = read(name)
    declared = template["Parameters"]
    if unknown := set(parameters) - set(declared):
        message = f"no such parameters: {sorted(unknown)}"
        raise ValueError(message)
    given = {
        key: text.split(",") if "List" in found["Type"] else text
        for key, found in declared.items()
        for text in [str(parameters.get(key, found.get("Default", "")))]
    }
    return render(name, template, given, KNOWN).resources
