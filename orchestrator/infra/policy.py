"""The stack policy of the data stack: no update replaces or removes data resources.

The policy still protects the data if an operator deploys with another tool.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from orchestrator.infra import templates
from orchestrator.infra.changes import STATEFUL
from orchestrator.infra.refusals import translated_aws_errors
from orchestrator.infra.stack import Stack


def protect_stack(stack: Stack) -> None:
    """Set the stack policy and turn on termination protection."""
    _set_policy(stack, templates.read(templates.STACK_POLICY))
    with translated_aws_errors(stack.name):
        stack.client.update_termination_protection(
            StackName=stack.name, EnableTerminationProtection=True
        )


@contextmanager
def replacements_allowed(
    stack: Stack, template: Mapping[str, Any], names: Collection[str]
) -> Iterator[None]:
    """Let an update replace or remove the named resources; restore the policy after."""
    if not names:
        yield
        return
    _set_policy(stack, json.dumps(policy_allowing(template, names)))
    try:
        yield
    finally:
        _set_policy(stack, templates.read(templates.STACK_POLICY))


def policy_allowing(
    template: Mapping[str, Any], names: Collection[str]
) -> dict[str, Any]:
    """Return a policy that protects all data resources except the named ones."""
    protected = [
        f"LogicalResourceId/{name}"
        for name, resource in template["Resources"].items()
        if resource["Type"] in STATEFUL and name not in names
    ]
    statements = [_statement("Allow", "Update:*", "*")]
    if protected:
        denied = ["Update:Replace", "Update:Delete"]
        statements.append(_statement("Deny", denied, protected))
    return {"Statement": statements}


def _statement(effect: str, action: object, resource: object) -> dict[str, Any]:
    return {
        "Effect": effect,
        "Principal": "*",
        "Action": action,
        "Resource": resource,
    }


def _set_policy(stack: Stack, policy: str) -> None:
    with translated_aws_errors(stack.name):
        stack.client.set_stack_policy(StackName=stack.name, StackPolicyBody=policy)
