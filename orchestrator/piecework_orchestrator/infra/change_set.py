"""A change set: the changes that CloudFormation plans, before it makes any."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

from piecework.errors import PieceworkError, UsageError
from piecework_orchestrator.infra.errors import InfraError, translated_aws_errors
from piecework_orchestrator.infra.stack import Stack
from piecework_orchestrator.infra.templates import Template

# ── planned change of each resource ───────────────────────────────────────────

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


#: Polls of a change set that CloudFormation is creating: five minutes.
MAX_POLLS: Final = 150
_READY_STATES: Final = frozenset({"CREATE_COMPLETE", "FAILED"})


@dataclass(frozen=True, slots=True)
class ChangeSet:
    """A change set that can be executed, or an empty one.

    Attributes:
        creates_stack: Whether the stack did not exist before.
        empty_reason: Why there are no changes, as reported by CloudFormation.
    """

    stack: Stack
    id: str
    stack_id: str
    creates_stack: bool
    changes: tuple[Change, ...] = ()
    empty_reason: str = ""


def create_change_set(
    stack: Stack,
    template: Template,
    parameters: list[dict[str, Any]],
    *,
    name: str,
    new: bool,
    tags: Mapping[str, str] | None = None,
    role_arn: str = "",
) -> ChangeSet:
    """Create a change set and wait until CloudFormation has computed it.

    CloudFormation remembers tags and role of a stack: without them they stay.

    Raises:
        InfraError: `infra.change.refused`.
    """
    kept: dict[str, Any] = {"RoleARN": role_arn} if role_arn else {}
    if tags is not None:
        kept["Tags"] = [{"Key": key, "Value": value} for key, value in tags.items()]
    with translated_aws_errors(stack.name):
        reply = stack.client.create_change_set(
            StackName=stack.name,
            ChangeSetName=name,
            ChangeSetType="CREATE" if new else "UPDATE",
            TemplateBody=template.text,
            Parameters=parameters,
            Capabilities=template.capabilities,
            **kept,
        )
    draft = ChangeSet(stack, str(reply["Id"]), str(reply["StackId"]), creates_stack=new)
    try:
        return _read(draft)
    except BaseException:
        with suppress(PieceworkError):  # the first error is the one to report
            delete_change_set(draft)
        raise


def delete_change_set(change_set: ChangeSet) -> None:
    """Delete the change set, and the empty stack that its creation may have left."""
    client, name = change_set.stack.client, change_set.stack.name
    with translated_aws_errors(name):
        client.delete_change_set(ChangeSetName=change_set.id)
        if change_set.creates_stack:
            client.delete_stack(StackName=change_set.stack_id)


def execute_change_set(change_set: ChangeSet, token: str) -> None:
    """Start the change; the events of the stack carry the token.

    If a creation fails, CloudFormation removes retained resources, too. Otherwise the
    next creation would find tables that belong to no stack.
    """
    with translated_aws_errors(change_set.stack.name):
        change_set.stack.client.execute_change_set(
            ChangeSetName=change_set.id,
            ClientRequestToken=token,
            RetainExceptOnCreate=True,
        )


def _read(draft: ChangeSet) -> ChangeSet:
    """Wait until the change set is ready, and read all its pages.

    CloudFormation reports an update without changes as FAILED, like an update that an
    account rule refused. Only the text differs. So both count as empty, and the caller
    shows the text.
    """
    reply = _wait_until_ready(draft)
    changes = tuple(_changes(draft, reply))
    reason = str(reply.get("StatusReason") or "")
    if reply["Status"] == "CREATE_COMPLETE":
        return replace(draft, changes=changes)
    if draft.creates_stack or changes:
        message = (
            f"CloudFormation could not create a change set for {draft.stack.name}: "
            f"{reason}"
        )
        raise InfraError(message, code="infra.change.refused")
    return replace(draft, empty_reason=reason or "no changes")


def _wait_until_ready(draft: ChangeSet) -> dict[str, Any]:
    for _ in range(MAX_POLLS):
        reply = _describe(draft)
        if reply["Status"] in _READY_STATES:
            return reply
        draft.stack.sleep(draft.stack.poll_s)
    message = f"CloudFormation is still creating the change set of {draft.stack.name}."
    raise InfraError(message, code="infra.change.refused")


def _changes(draft: ChangeSet, reply: dict[str, Any]) -> list[Change]:
    found = list(reply.get("Changes", ()))
    while token := reply.get("NextToken"):
        reply = _describe(draft, NextToken=token)
        found += reply.get("Changes", ())
    return [read_change(row["ResourceChange"]) for row in found]


def _describe(draft: ChangeSet, **page: str) -> dict[str, Any]:
    with translated_aws_errors(draft.stack.name):
        reply: dict[str, Any] = draft.stack.client.describe_change_set(
            ChangeSetName=draft.id, IncludePropertyValues=True, **page
        )
    return reply
