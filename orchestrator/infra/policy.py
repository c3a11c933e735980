"""The stack policy of the data stack: no update replaces or removes what holds data.

It is what holds when somebody deploys past this command, with another tool.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from orchestrator.infra import templates
from orchestrator.infra.changes import STATEFUL
from orchestrator.infra.refusals import explained
from orchestrator.infra.stack import Stack


def protect(stack: Stack) -> None:
    """Set the policy, and let nobody delete the stack without a second thought."""
    _set(stack, templates.read(templates.STACK_POLICY))
    with explained(stack.name):
        stack.client.update_termination_protection(
            StackName=stack.name, EnableTerminationProtection=True
        )


@contextmanager
def relaxed(
    stack: Stack, template: Mapping[str, Any], names: Collection[str]
) -> Iterator[None]:
    """Let an update replace or remove the named resources, and afterwards no more."""
    if not names:
        yield
        return
    _set(stack, json.dumps(all_but(template, names)))
    try:
        yield
    finally:
        _set(stack, templates.read(templates.STACK_POLICY))


def all_but(template: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """Return the policy that spares the named resources."""
    held = [
        f"LogicalResourceId/{name}"
        for name, resource in template["Resources"].items()
        if resource["Type"] in STATEFUL and name not in names
    ]
    statements = [_statement("Allow", "Update:*", "*")]
    if held:
        statements.append(_statement("Deny", ["Update:Replace", "Update:Delete"], held))
    return {"Statement": statements}


def _statement(effect: str, action: object, resource: object) -> dict[str, Any]:
    return {
        "Effect": effect,
        "Principal": "*",
        "Action": action,
        "Resource": resource,
    }


def _set(stack: Stack, policy: str) -> None:
    with explained(stack.name):
        stack.client.set_stack_policy(StackName=stack.name, StackPolicyBody=policy)
