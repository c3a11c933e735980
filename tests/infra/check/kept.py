"""Which settings of a resource a service's answers do not show.

A setting is a name and a value somewhere in the tree of the properties; it is kept if
the same name with the same value is somewhere in the answers. Where the service calls
it something else, that is told below.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

#: What a service calls a setting of a template; and how it says that it is on.
ALIASES: dict[tuple[str, str], tuple[str, str | None]] = {
    ("AWS::DynamoDB::Table", "Enabled"): ("TimeToLiveStatus", "ENABLED"),
    ("AWS::DynamoDB::Table", "PointInTimeRecoveryEnabled"): (
        "PointInTimeRecoveryStatus",
        "ENABLED",
    ),
    ("AWS::DynamoDB::Table", "SSEEnabled"): ("Status", "ENABLED"),
    ("AWS::DynamoDB::Table", "KMSMasterKeyId"): ("KMSMasterKeyArn", None),
    ("AWS::EC2::SecurityGroup", "GroupDescription"): ("Description", None),
    ("AWS::EC2::SecurityGroup", "SourceSecurityGroupId"): ("GroupId", None),
    ("AWS::EC2::VPC", "EnableDnsHostnames"): ("Value", "true"),
    ("AWS::EC2::VPC", "EnableDnsSupport"): ("Value", "true"),
    ("AWS::EC2::VPCEndpoint", "SecurityGroupIds"): ("GroupId", None),
    ("AWS::IAM::ManagedPolicy", "ManagedPolicyName"): ("PolicyName", None),
    ("AWS::KMS::Key", "EnableKeyRotation"): ("KeyRotationEnabled", None),
}
#: What no service shows, AWS's own neither, or what it was asked by.
UNSEEN = {
    ("AWS::ECS::Service", "Cluster"),
    ("AWS::KMS::Key", "PendingWindowInDays"),
}


def lost(
    kind: str, wanted: dict[str, Any], answers: list[Any], logical: set[str]
) -> Iterator[str]:
    """Yield what is not in the answers: whole properties, or their parts."""
    seen = {(path[-1].lower(), value) for path, value in settings(answers, ("",))}
    for key, value in wanted.items():
        parts = list(settings(value, (key,)))
        gone = {
            path
            for path, each in parts
            if not kept(kind, path[-1], each, seen, logical)
        }
        if gone == {path for path, _ in parts}:
            yield from [key] if gone else []
        else:
            yield from sorted({".".join(path[:2]) for path in gone})


def kept(
    kind: str, name: str, value: str, seen: set[tuple[str, str]], logical: set[str]
) -> bool:
    """Return whether a setting was seen, by whatever name the service gives it."""
    if (kind, name) in UNSEEN:
        return True
    called, says = ALIASES.get((kind, name), (name, None))
    if value.partition(".")[0] in logical:  # an attribute that AWS chooses
        return any(called.lower() == each for each, _ in seen)
    return (called.lower(), says or value) in seen


def settings(node: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield each way into a tree and the value there; lists are not counted."""
    if isinstance(node, dict):
        pair = pair_of(node)
        for key, inside in [pair] if pair else node.items():
            yield from settings(inside, (*path, str(key)))
    elif isinstance(node, list | tuple):
        for inside in node:
            yield from settings(inside, path)
    elif (
        isinstance(node, str) and node[:1] in {"{", "["} and (parsed := from_json(node))
    ):
        yield from settings(parsed, path)
    elif isinstance(node, bool):
        yield path, str(node).lower()
    elif isinstance(node, float) and node == int(node):
        yield path, str(int(node))
    else:
        yield path, str(node)


def pair_of(node: dict[str, Any]) -> tuple[str, Any] | None:
    """Return the pair that a tag or a variable is."""
    lower = {key.lower(): value for key, value in node.items()}
    for name, value in (("key", "value"), ("name", "value"), ("tagkey", "tagvalue")):
        if lower.keys() == {name, value}:
            return str(lower[name]), lower[value]
    return None


def from_json(text: str) -> Any:
    """Return what a text holds; nothing, if it is no JSON."""
    try:
        return json.loads(text)
    except ValueError:
        return None
