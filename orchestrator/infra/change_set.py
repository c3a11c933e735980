"""A change set: what CloudFormation says that it would do, before it does anything."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

from orchestrator.infra.changes import Change, read_change
from orchestrator.infra.refusals import InfraError, explained
from orchestrator.infra.stack import Stack
from orchestrator.infra.templates import Template
from piecework.errors import PieceworkError

#: Looks at a change set that is being made: five minutes of them.
PATIENCE: Final = 150
_MADE: Final = frozenset({"CREATE_COMPLETE", "FAILED"})


@dataclass(frozen=True, slots=True)
class ChangeSet:
    """A change set that can be executed, or one that found nothing to do.

    Attributes:
        created: Whether the stack did not exist before it.
        empty: Why there is nothing to do, in CloudFormation's words.
    """

    stack: Stack
    id: str
    stack_id: str
    created: bool
    changes: tuple[Change, ...] = ()
    empty: str = ""


def propose(
    stack: Stack,
    template: Template,
    parameters: list[dict[str, Any]],
    *,
    name: str,
    new: bool,
) -> ChangeSet:
    """Have a change set made, and wait for it.

    Raises:
        InfraError: `infra.change.refused`.
    """
    with explained(stack.name):
        made = stack.client.create_change_set(
            StackName=stack.name,
            ChangeSetName=name,
            ChangeSetType="CREATE" if new else "UPDATE",
            TemplateBody=template.text,
            Parameters=parameters,
            Capabilities=template.capabilities,
        )
    draft = ChangeSet(stack, str(made["Id"]), str(made["StackId"]), created=new)
    try:
        return _read(draft)
    except BaseException:
        with suppress(PieceworkError):  # what went wrong first is what counts
            discard(draft)
        raise


def discard(change_set: ChangeSet) -> None:
    """Delete it, and with it the empty stack that it may have begun."""
    client, name = change_set.stack.client, change_set.stack.name
    with explained(name):
        client.delete_change_set(ChangeSetName=change_set.id)
        if change_set.created:
            client.delete_stack(StackName=change_set.stack_id)


def execute(change_set: ChangeSet, token: str) -> None:
    """Begin; the stack's events bear the token.

    A creation that fails takes back what it made, retained or not: else the next one
    would find tables that belong to no stack.
    """
    with explained(change_set.stack.name):
        change_set.stack.client.execute_change_set(
            ChangeSetName=change_set.id,
            ClientRequestToken=token,
            RetainExceptOnCreate=True,
        )


def _read(draft: ChangeSet) -> ChangeSet:
    """Wait until it is made, and read all its pages.

    An update without changes has failed, too, and nothing but words tells it from one
    that a rule of the account refused: so it counts as empty, and the words are shown.
    """
    reply = _made(draft)
    changes = tuple(_changes(draft, reply))
    reason = str(reply.get("StatusReason") or "")
    if reply["Status"] == "CREATE_COMPLETE":
        return replace(draft, changes=changes)
    if draft.created or changes:
        message = f"CloudFormation made no change set for {draft.stack.name}: {reason}"
        raise InfraError(message, code="infra.change.refused")
    return replace(draft, empty=reason or "no changes")


def _made(draft: ChangeSet) -> dict[str, Any]:
    for _ in range(PATIENCE):
        reply = _describe(draft)
        if reply["Status"] in _MADE:
            return reply
        draft.stack.pause(draft.stack.poll_s)
    message = f"The change set of {draft.stack.name} is not ready yet."
    raise InfraError(message, code="infra.change.refused")


def _changes(draft: ChangeSet, reply: dict[str, Any]) -> list[Change]:
    found = list(reply.get("Changes", ()))
    while token := reply.get("NextToken"):
        reply = _describe(draft, NextToken=token)
        found += reply.get("Changes", ())
    return [read_change(row["ResourceChange"]) for row in found]


def _describe(draft: ChangeSet, **page: str) -> dict[str, Any]:
    with explained(draft.stack.name):
        reply: dict[str, Any] = draft.stack.client.describe_change_set(
            ChangeSetName=draft.id, IncludePropertyValues=True, **page
        )
    return reply
