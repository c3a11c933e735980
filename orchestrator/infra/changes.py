"""What a change set would do to each resource, and which of it may lose something."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from piecework.errors import UsageError

#: Types of resources that hold what nobody can make again.
STATEFUL: Final = frozenset(
    {
        "AWS::DynamoDB::GlobalTable",
        "AWS::DynamoDB::Table",
        "AWS::KMS::Key",
        "AWS::Logs::LogGroup",
        "AWS::S3::Bucket",
        "AWS::SQS::Queue",
    }
)
#: Characters of a value that is shown before and after.
SHOWN: Final = 40


@dataclass(frozen=True, slots=True)
class Change:
    """What would happen to one resource.

    Attributes:
        action: Add, Modify, Remove, Import or Dynamic, as CloudFormation says.
        replacement: True, False or Conditional; empty where it cannot be.
        kept: Whether what is removed or replaced is left behind.
        properties: What of it changes, and from what to what where that is told.
    """

    action: str
    resource: str
    type: str
    replacement: str = ""
    kept: bool = False
    properties: tuple[str, ...] = ()

    @property
    def endangers(self) -> bool:
        """Whether records, messages, objects, keys or logs may be lost to the stack."""
        goes = self.action in {"Remove", "Dynamic"}
        return self.type in STATEFUL and (
            goes or self.replacement in {"True", "Conditional"}
        )

    def document(self) -> dict[str, Any]:
        """Return it for programs."""
        return {
            "action": self.action,
            "resource": self.resource,
            "type": self.type,
            "replacement": self.replacement,
            "kept": self.kept,
            "properties": list(self.properties),
            "endangers": self.endangers,
        }


def read_change(reply: Mapping[str, Any]) -> Change:
    """Read one `ResourceChange` of DescribeChangeSet."""
    details = reply.get("Details", ())
    return Change(
        action=str(reply["Action"]),
        resource=str(reply["LogicalResourceId"]),
        type=str(reply["ResourceType"]),
        replacement=str(reply.get("Replacement") or ""),
        kept=reply.get("PolicyAction") in {"Retain", "ReplaceAndRetain"},
        properties=tuple(
            dict.fromkeys(_property(d.get("Target", {})) for d in details)
        ),
    )


def refuse_endangering(changes: Iterable[Change], allowed: Iterable[str]) -> None:
    """Raise for what may lose something, unless it was allowed by name.

    Raises:
        UsageError: `infra.replacement.refused`.
    """
    names = set(allowed)
    found = [c for c in changes if c.endangers and c.resource not in names]
    if not found:
        return
    said = ", ".join(f"{_verb(change)} {change.resource}" for change in found)
    flags = " ".join(f"--allow-replacement {change.resource}" for change in found)
    message = f"This deploy {said}, which holds what cannot be made again."
    step = f"If that is meant, back it up and add {flags}."
    raise UsageError(message, code="infra.replacement.refused", next_step=step)


def _verb(change: Change) -> str:
    if change.action == "Remove":
        return "leaves behind" if change.kept else "removes"
    certain = change.replacement == "True"
    return "replaces" if certain else "may replace"


def _property(target: Mapping[str, Any]) -> str:
    name = str(target.get("Name") or target.get("Attribute", ""))
    before, after = target.get("BeforeValue"), target.get("AfterValue")
    if before is None or after is None or len(before + after) > SHOWN:
        return name
    return f"{name}: {before} to {after}"
