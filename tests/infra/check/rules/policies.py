"""Policies: who is let in, to what, and on whose behalf."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.infra.check.render import Stack
from tests.infra.check.rules.rule import rule
from tests.infra.check.samples import ACCOUNT
from tests.infra.check.templates import Templates

DOCUMENTS = {"AssumeRolePolicyDocument", "KeyPolicy", "PolicyDocument"}
#: Where images have their layers; ECR signs the way to them in its own name.
LAYERS = "starport-layer-bucket/*"


def statements(
    templates: Templates,
) -> Iterator[tuple[str, str, str, dict[str, Any]]]:
    """Yield stack, resource, its type, and each statement of its policies."""
    for stack in templates.stacks():
        for name, resource in stack.resources.items():
            for statement in statements_of(resource.get("Properties", {})):
                yield stack.name, name, resource["Type"], statement


def statements_of(node: Any) -> Iterator[dict[str, Any]]:
    """Yield the statements of every policy within a resource, however deep."""
    if isinstance(node, list):
        for each in node:
            yield from statements_of(each)
    elif isinstance(node, dict):
        for key, inside in node.items():
            if key in DOCUMENTS:
                yield from inside["Statement"]
            else:
                yield from statements_of(inside)


def many(one_or_more: Any) -> list[Any]:
    """Return a list, also of what stands alone."""
    return one_or_more if isinstance(one_or_more, list) else [one_or_more]


def everybody(statement: dict[str, Any]) -> bool:
    """Return whether a statement is about anybody at all."""
    principal = statement.get("Principal")
    named = principal.values() if isinstance(principal, dict) else [principal]
    return any("*" in many(each) for each in named)


@rule
def no_principal_is_admitted_without_a_name(templates: Templates) -> Iterator[str]:
    for stack, name, kind, statement in statements(templates):
        if statement["Effect"] == "Allow" and everybody(statement):
            own = statement.get("Condition", {}).get("StringEquals", {})
            of_account = own.get("aws:PrincipalAccount") == ACCOUNT
            layers = str(statement["Resource"]).endswith(LAYERS)
            if kind != "AWS::EC2::VPCEndpoint" or not (of_account or layers):
                yield f"{stack}: {name} {statement.get('Sid')}"


@rule
def no_action_is_granted_by_a_star(templates: Templates) -> Iterator[str]:
    for stack, name, kind, statement in statements(templates):
        # An endpoint's policy is a fence around what roles grant, and the account's
        # own say over its key is what keeps that key from being lost.
        fence = kind == "AWS::EC2::VPCEndpoint"
        own = kind == "AWS::KMS::Key" and is_root(statement)
        if statement["Effect"] == "Allow" and not (fence or own):
            starred = [a for a in many(statement.get("Action", "*")) if "*" in a]
            if starred:
                yield f"{stack}: {name} {starred}"


@rule
def nothing_is_granted_by_exception(templates: Templates) -> Iterator[str]:
    for stack, name, _, statement in statements(templates):
        turned = {"NotAction", "NotPrincipal", "NotResource"} & statement.keys()
        if statement["Effect"] == "Allow" and turned:
            yield f"{stack}: {name} {sorted(turned)}"


@rule
def a_service_acts_for_this_account_alone(templates: Templates) -> Iterator[str]:
    for stack, name, _, statement in statements(templates):
        principal = statement.get("Principal")
        if not isinstance(principal, dict) or "Service" not in principal:
            continue
        if ACCOUNT not in str(statement.get("Condition", {})):
            yield f"{stack}: {name} {statement.get('Sid')}"


@rule
def a_key_is_in_the_hands_of_its_account(templates: Templates) -> Iterator[str]:
    for stack in templates.stacks():
        for name, key in stack.of("AWS::KMS::Key"):
            if not any(is_root(s) for s in key["KeyPolicy"]["Statement"]):
                yield f"{stack.name}: {name}"


def is_root(statement: dict[str, Any]) -> bool:
    """Return whether a statement lets only the IAM of the account decide."""
    root = {"AWS": f"arn:aws:iam::{ACCOUNT}:root"}
    return bool(statement.get("Principal") == root)


@rule
def an_endpoint_leads_to_our_own_alone(templates: Templates) -> Iterator[str]:
    for stack in templates.stacks():
        for name, endpoint in stack.of("AWS::EC2::VPCEndpoint"):
            for statement in statements_of(endpoint):
                if not fenced(stack, name, statement):
                    yield f"{stack.name}: {name} {statement.get('Sid')}"
            if "PolicyDocument" not in endpoint:
                yield f"{stack.name}: {name} has no policy"


def fenced(stack: Stack, name: str, statement: dict[str, Any]) -> bool:
    """Return whether it names what it leads to, or lists actions that name nothing."""
    if many(statement["Resource"]) != ["*"]:
        return True
    return not any("*" in action for action in many(statement["Action"]))
