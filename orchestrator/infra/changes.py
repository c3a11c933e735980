"""The planned change of each resource, and which changes may destroy data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from piecework.errors import UsageError

#: Types of resources whose contents cannot be recreated.
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
#: Longest old and new value together, in characters, that is shown.
MAX_VALUE_LENGTH: Final = 40


@dataclass(frozen=True, slots=True)
class Change:
    """The planned change of one resource.

    Attributes:
        action: CloudFormation's word: Add, Modify, Remove, Import or Dynamic.
        replacement: True, False or Conditional; empty if it does not apply.
        retained: Whether the removed or replaced resource stays in the account.
        properties: Names of the changed properties, with old and new value if known.
    """

    action: str
    resource: str
    type: str
    replacement: str = ""
    retained: bool = False
    properties: tuple[str, ...] = ()

    @property
    def destructive(self) -> bool:
        """Whether the stack may lose records, messages, objects, keys or logs."""
        removes = self.action in {"Remove", "Dynamic"}
        return self.type in STATEFUL and (
            removes or self.replacement in {"True", "Conditional"}
        )

    def document(self) -> dict[str, Any]:
        """Return the change as a JSON document."""
        return {
            "action": self.action,
            "resource": self.resource,
            "type": self.type,
            "replacement": self.replacement,
            "retained": self.retained,
            "properties": list(self.properties),
            "destructive": self.destructive,
        }


def read_change(reply: Mapping[str, Any]) -> Change:
    """Read one `ResourceChange` of DescribeChangeSet."""
    details = reply.get("Details", ())
    return Change(
        action=str(reply["Action"]),
        resource=str(reply["LogicalResourceId"]),
        type=str(reply["ResourceType"]),
        replacement=str(reply.get("Replacement") or ""),
        retained=reply.get("PolicyAction") in {"Retain", "ReplaceAndRetain"},
        properties=tuple(
            dict.fromkeys(_property(d.get("Target", {})) for d in details)
        ),
    )


def refuse_destructive_changes(
    changes: Iterable[Change], allowed: Iterable[str]
) -> None:
    """Raise if a change may destroy data and its resource is not in `allowed`.

    Raises:
        UsageError: `infra.replacement.refused`.
    """
    names = set(allowed)
    found = [c for c in changes if c.destructive and c.resource not in names]
    if not found:
        return
    actions = ", ".join(f"{_verb(change)} {change.resource}" for change in found)
    flags = " ".join(f"--allow-replacement {change.resource}" for change in found)
    message = f"This deploy {actions}; the contents cannot be recreated."
    step = f"To do it anyway, make a backup and add {flags}."
    raise UsageError(message, code="infra.replacement.refused", next_step=step)


def _verb(change: Change) -> str:
    if change.action == "Remove":
        return "leaves behind" if change.retained else "removes"
    certain = change.replacement == "True"
    return "replaces" if certain else "may replace"


def _property(target: Mapping[str, Any]) -> str:
    name = str(target.get("Name") or target.get("Attribute", ""))
    before, after = target.get("BeforeValue"), target.get("AfterValue")
    if before is None or after is None or len(before + after) > MAX_VALUE_LENGTH:
        return name
    return f"{name}: {before} to {after}"
