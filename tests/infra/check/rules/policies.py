"""Policies: who is let in, to what, and on whose behalf."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tests.infra.check.rules.rule import (
    Properties,
    Rule,
    all_of,
    every,
    many,
    settings,
    statements_of,
)
from tests.infra.check.samples import ACCOUNT
from tests.infra.check.templates import Templates

KEY, ENDPOINT = "AWS::KMS::Key", "AWS::EC2::VPCEndpoint"
#: Where images have their layers; ECR signs the way to them in its own name.
LAYERS = "starport-layer-bucket/*"


def statements(holds: Callable[[Properties, str], object]) -> Rule:
    """Return the rule that something holds of each statement and its type."""

    def check(templates: Templates) -> Iterator[str]:
        for stack in templates.stacks():
            for name, resource in stack.resources.items():
                for statement in statements_of(resource.get("Properties", {})):
                    if not holds(statement, resource["Type"]):
                        yield f"{stack.name}: {name} {statement.get('Sid')}"

    return check


def granted(holds: Callable[[Properties, str], object]) -> Rule:
    """Return the same of each statement that grants something."""
    return statements(lambda s, kind: s["Effect"] != "Allow" or holds(s, kind))


def is_root(statement: Properties) -> bool:
    """Return whether a statement lets only the IAM of the account decide."""
    root = {"AWS": f"arn:aws:iam::{ACCOUNT}:root"}
    return bool(statement.get("Principal") == root)


def by_name(statement: Properties, kind: str) -> bool:
    """Return whether a statement names its principal, or the account at an endpoint."""
    principal = statement.get("Principal")
    named = principal.values() if isinstance(principal, dict) else [principal]
    if not any("*" in many(each) for each in named):
        return True
    own = statement.get("Condition", {}).get("StringEquals", {})
    layers = str(statement["Resource"]).endswith(LAYERS)
    return kind == ENDPOINT and (own.get("aws:PrincipalAccount") == ACCOUNT or layers)


def without_a_star(statement: Properties, kind: str) -> bool:
    """Return whether a statement lists actions.

    An endpoint's policy may have a star, because it only limits what roles grant. So
    may the account's own statement about a key: it keeps the key from being lost.
    """
    if kind == ENDPOINT or (kind == KEY and is_root(statement)):
        return True
    return not any("*" in action for action in many(statement.get("Action", "*")))


def for_the_account(statement: Properties, _: str) -> bool:
    principal = statement.get("Principal")
    of_service = isinstance(principal, dict) and "Service" in principal
    return not of_service or ACCOUNT in str(statement.get("Condition", {}))


def fenced(endpoint: Properties, _: Any) -> bool:
    """Return whether each statement names what it leads to, or lists its actions."""
    return all(
        many(statement["Resource"]) != ["*"]
        or not any("*" in action for action in many(statement["Action"]))
        for statement in statements_of(endpoint)
    )


RULES: dict[str, Rule] = {
    "no principal is admitted without a name": granted(by_name),
    "no action is granted by a star": granted(without_a_star),
    "nothing is granted by exception": granted(
        lambda s, _: not {"NotAction", "NotPrincipal", "NotResource"} & s.keys()
    ),
    "a service acts for this account alone": statements(for_the_account),
    "only its account decides about a key": all_of(
        KEY, lambda key, _: any(is_root(s) for s in key["KeyPolicy"]["Statement"])
    ),
    "an endpoint leads only to our own": every(
        all_of(ENDPOINT, fenced), settings(ENDPOINT, {"PolicyDocument": bool})
    ),
}
