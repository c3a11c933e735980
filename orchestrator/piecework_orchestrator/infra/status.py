"""The present state of an environment's stacks, and how it differs from the wanted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from piecework_orchestrator.infra import templates
from piecework_orchestrator.infra.environment import Environment
from piecework_orchestrator.infra.session import AwsSession
from piecework_orchestrator.infra.stack import IN_REVIEW, Stack, StackState
from piecework_orchestrator.infra.templates import Part, Template

NOT_DEPLOYED = "NOT_DEPLOYED"


def status(session: AwsSession, environment: Environment) -> list[dict[str, Any]]:
    """Return a document for each stack, including stacks that do not exist."""
    stacks = {part: session.stack(environment, part) for part in Part}
    found = {part: stack.find() for part, stack in stacks.items()}
    outputs = {part: state.outputs for part, state in found.items() if state}
    documents = []
    for part, stack in stacks.items():
        state = found[part]
        if state is None:
            document = {"part": str(part), "stack": stack.name, "status": NOT_DEPLOYED}
        else:
            wanted = environment.inherited_parameters(part, outputs)
            wanted |= environment.parameters_for(part)
            document = describe(stack, templates.load(part), state, wanted)
        documents.append(document)
    return documents


def describe(
    stack: Stack, template: Template, found: StackState, wanted: Mapping[str, str]
) -> dict[str, Any]:
    """Return the document of a stack; a stack in review has no template yet."""
    same = found.status != IN_REVIEW and stack.template() == template.text
    return {
        "part": str(template.part),
        "stack": stack.name,
        "status": found.status,
        "reason": found.reason,
        "updated_at": found.updated_at,
        "protected": found.protected,
        "drift": found.drift,
        "template": "same" if same else "differs",
        "different_parameters": different_parameters(template, found, wanted),
        "parameters": dict(found.parameters),
        "outputs": dict(found.outputs),
    }


def different_parameters(
    template: Template, found: StackState, wanted: Mapping[str, str]
) -> list[dict[str, str]]:
    """Return the parameters that differ from the wanted or the default value."""
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
