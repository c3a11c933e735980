"""The stacks of an environment as they are, and how that differs from the wanted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from orchestrator.infra import templates
from orchestrator.infra.environment import Environment
from orchestrator.infra.parts import Part
from orchestrator.infra.site import Site
from orchestrator.infra.stack import Found, Stack
from orchestrator.infra.standing import REVIEW
from orchestrator.infra.templates import Template

ABSENT = "not there"


def status(site: Site, environment: Environment) -> list[dict[str, Any]]:
    """Return a document for each stack, those that are not there included."""
    stacks = {part: site.stack(environment, part) for part in Part}
    found = {part: stack.find() for part, stack in stacks.items()}
    outputs = {part: here.outputs for part, here in found.items() if here}
    documents = []
    for part, stack in stacks.items():
        here = found[part]
        if here is None:
            document = {"part": str(part), "stack": stack.name, "status": ABSENT}
        else:
            wanted = environment.handed(part, outputs) | environment.given_to(part)
            document = describe(stack, templates.load(part), here, wanted)
        documents.append(document)
    return documents


def describe(
    stack: Stack, template: Template, found: Found, wanted: Mapping[str, str]
) -> dict[str, Any]:
    """Return what there is to know of a stack; one in review has no template yet."""
    same = found.status != REVIEW and stack.template() == template.text
    return {
        "part": str(template.part),
        "stack": stack.name,
        "status": found.status,
        "reason": found.reason,
        "updated_at": found.updated_at,
        "protected": found.protected,
        "drift": found.drift,
        "template": "same" if same else "differs",
        "differs": differing(template, found, wanted),
        "parameters": dict(found.parameters),
        "outputs": dict(found.outputs),
    }


def differing(
    template: Template, found: Found, wanted: Mapping[str, str]
) -> list[dict[str, str]]:
    """Return the parameters that are not as wanted; unwanted, not the default."""
    rows = []
    for name, facts in template.parameters.items():
        default = facts.get("Default")
        expected = wanted.get(name, None if default is None else str(default))
        value = found.parameters.get(name)
        if name in {"App", "Env"} or value is None or expected in (None, value):
            continue
        source = "wanted" if name in wanted else "default"
        rows.append({"name": name, "value": value, source: str(expected)})
    return rows
