"""Read, create and update one CloudFormation stack, and wait for it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final

from piecework.errors import UsageError
from piecework_orchestrator.infra.errors import InfraError, translated_aws_errors
from piecework_orchestrator.infra.templates import Template

#: Seconds between two polls of CloudFormation.
POLL_S = 2.0


@dataclass(frozen=True, slots=True)
class StackState:
    """The state of an existing stack."""

    id: str
    status: str
    reason: str
    parameters: Mapping[str, str]
    outputs: Mapping[str, str]
    protected: bool
    updated_at: str
    drift: str
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Stack:
    """A stack by its name, with a CloudFormation client.

    Attributes:
        sleep: Waits for some seconds.
        poll_s: Seconds between two polls.
    """

    client: Any
    name: str
    sleep: Callable[[float], object] = field(default=time.sleep)
    poll_s: float = POLL_S

    def find(self, stack_id: str = "") -> StackState | None:
        """Return the stack's state, or None; a deleted stack is found by id only."""
        from botocore.exceptions import ClientError

        with translated_aws_errors(self.name):
            try:
                reply = self.client.describe_stacks(StackName=stack_id or self.name)
            except ClientError as error:
                # CloudFormation has no separate error code for "no such stack".
                if error.response["Error"]["Code"] == "ValidationError":
                    return None
                raise
        return _parse_state(reply["Stacks"][0])

    def template(self) -> str:
        """Return the template as it was submitted."""
        with translated_aws_errors(self.name):
            reply = self.client.get_template(
                StackName=self.name, TemplateStage="Original"
            )
        body = reply["TemplateBody"]
        # The SDK parses a template that was submitted as JSON.
        return body if isinstance(body, str) else json.dumps(body)

    def resources(self) -> list[dict[str, str]]:
        """Return logical id, physical id and type of each resource."""
        with translated_aws_errors(self.name):
            pages = self.client.get_paginator("list_stack_resources").paginate(
                StackName=self.name
            )
            return [
                {
                    "resource": row["LogicalResourceId"],
                    "id": row.get("PhysicalResourceId", ""),
                    "type": row["ResourceType"],
                }
                for page in pages
                for row in page["StackResourceSummaries"]
                if row["ResourceStatus"] != "DELETE_COMPLETE"
            ]

    def create_or_update(
        self, template: Template, parameters: Mapping[str, str], *, new: bool
    ) -> None:
        """Create or update the stack without a change set to review."""
        request = {
            "StackName": self.name,
            "TemplateBody": template.text,
            "Parameters": [
                {"ParameterKey": name, "ParameterValue": value}
                for name, value in parameters.items()
            ],
        }
        with translated_aws_errors(self.name):
            if new:
                self.client.create_stack(**request)
            else:
                self.client.update_stack(**request)

    def wait_until_finished(self, max_polls: int) -> StackState | None:
        """Wait until no operation runs; return None after `max_polls` polls."""
        for _ in range(max_polls):
            found = self.find()
            if found is not None and is_finished(found.status):
                return found
            self.sleep(self.poll_s)
        return None


def _parse_state(reply: Mapping[str, Any]) -> StackState:
    changed = reply.get("LastUpdatedTime") or reply.get("CreationTime")
    return StackState(
        id=str(reply["StackId"]),
        status=str(reply["StackStatus"]),
        reason=str(reply.get("StackStatusReason") or ""),
        parameters={
            p["ParameterKey"]: p.get("ParameterValue", "")
            for p in reply.get("Parameters", ())
        },
        outputs={o["OutputKey"]: o["OutputValue"] for o in reply.get("Outputs", ())},
        protected=bool(reply.get("EnableTerminationProtection")),
        updated_at=changed.isoformat() if changed else "",
        tags={tag["Key"]: tag["Value"] for tag in reply.get("Tags", ())},
        drift=str(reply.get("DriftInformation", {}).get("StackDriftStatus", "")),
    )


# ── follow the events of a stack until its operation ends ─────────────────────

#: Polls of a stack that has ended, while the event of its end is missing.
MAX_POLLS: Final = 15


@dataclass(frozen=True, slots=True)
class Event:
    """One event of one resource."""

    id: str
    at: str
    status: str
    resource: str
    type: str
    reason: str

    @property
    def failed(self) -> bool:
        """Whether the event reports a failure."""
        return self.status.endswith("_FAILED")

    def format_line(self) -> str:
        """Return the event as one line of text."""
        reason = f": {self.reason}" if self.reason else ""
        return f"{self.at}  {self.status:<28} {self.resource} ({self.type}){reason}"


def follow(
    stack: Stack, stack_id: str, token: str, report: Callable[[str], None]
) -> StackState | None:
    """Report each event of the operation with this token; return the final state.

    Raises:
        InfraError: `infra.deploy.failed`, with the failed resources and the reasons,
            the first failure first.
    """
    reported: dict[str, Event] = {}
    for polls in count():
        for event in reversed(list(_new_events(stack, stack_id, token, reported))):
            reported[event.id] = event
            report(event.format_line())
        found = stack.find(stack_id)
        if found is None or _has_ended(stack.name, found, reported.values(), polls):
            break
        stack.sleep(stack.poll_s)
    if found is not None and not has_succeeded(found.status):
        raise operation_error(stack.name, found, list(reported.values()))
    return found


def _has_ended(
    name: str, found: StackState, events: Iterable[Event], polls: int
) -> bool:
    """Return whether the operation has ended.

    A stack briefly shows its earlier state, so `follow` waits for the stack's own final
    event. The wait is bounded: CloudFormation writes no final event of an empty stack.
    """
    own = [event for event in events if event.resource == name]
    seen = bool(own) and is_finished(own[-1].status)
    return is_finished(found.status) and (
        seen or found.status == DELETED or polls >= MAX_POLLS
    )


def operation_error(name: str, found: StackState, events: list[Event]) -> InfraError:
    """Return the error; the first failure is the cause, the others are cancelled."""
    failed = [event for event in events if event.failed]
    lines = [f"  {e.resource} ({e.type}): {e.reason}" for e in failed]
    message = "\n".join([f"The stack {name} ended in {found.status}.", *lines])
    step = ""
    if found.status == "DELETE_FAILED":
        step = "Fix the named resources, then run the same command again."
    elif found.status in CREATION_FAILED:
        step = (
            "Fix the cause, remove the stack with `piecework infra destroy`, "
            "then deploy again."
        )
    return InfraError(message, next_step=step, stack=name, status=found.status)


def _new_events(
    stack: Stack, stack_id: str, token: str, reported: dict[str, Event]
) -> Iterator[Event]:
    """Yield the events not reported yet, newest first, as CloudFormation lists them."""
    with translated_aws_errors(stack.name):
        pages = stack.client.get_paginator("describe_stack_events").paginate(
            StackName=stack_id
        )
        for row in (row for page in pages for row in page["StackEvents"]):
            if row["EventId"] in reported or row.get("ClientRequestToken") != token:
                return
            yield _parse_event(row)


def _parse_event(row: dict[str, Any]) -> Event:
    return Event(
        id=str(row["EventId"]),
        at=f"{row['Timestamp']:%H:%M:%S}",
        status=str(row["ResourceStatus"]),
        resource=str(row["LogicalResourceId"]),
        type=str(row["ResourceType"]),
        reason=str(row.get("ResourceStatusReason") or ""),
    )


# ── which states of a stack allow a change ────────────────────────────────────

#: States in which a stack accepts a change.
READY: Final = frozenset(
    {
        "CREATE_COMPLETE",
        "IMPORT_COMPLETE",
        "IMPORT_ROLLBACK_COMPLETE",
        "UPDATE_COMPLETE",
        "UPDATE_ROLLBACK_COMPLETE",
    }
)
#: States after a failed creation; such a stack can only be deleted.
CREATION_FAILED: Final = frozenset(
    {"CREATE_FAILED", "ROLLBACK_COMPLETE", "ROLLBACK_FAILED"}
)
IN_REVIEW: Final = "REVIEW_IN_PROGRESS"
DELETED: Final = "DELETE_COMPLETE"


def is_finished(status: str) -> bool:
    """Return whether the operation has ended, its cleanup included."""
    return not status.endswith("_IN_PROGRESS")


def was_never_created(status: str) -> bool:
    """Return whether the stack was never created and so holds no data."""
    return status == IN_REVIEW or status in CREATION_FAILED


def has_succeeded(status: str) -> bool:
    """Return whether the last operation succeeded."""
    return status in {"CREATE_COMPLETE", "UPDATE_COMPLETE", DELETED}


def require_ready(stack: str, part: str, env: str, status: str) -> None:
    """Raise unless the stack accepts a change.

    Raises:
        UsageError: `infra.stack.busy`, `infra.stack.in_review`,
            `infra.stack.not_created`, `infra.stack.stuck`.
    """
    if status in READY:
        return
    destroy = f"`piecework infra destroy --env {env} --stack {part}`"
    if status == IN_REVIEW:
        code = "infra.stack.in_review"
        step = f"Execute or delete its change set, or run {destroy}."
    elif status in CREATION_FAILED:
        code, step = "infra.stack.not_created", f"Run {destroy}, then deploy again."
    elif not is_finished(status):
        code, step = "infra.stack.busy", ""
    elif status == "UPDATE_ROLLBACK_FAILED":
        code = "infra.stack.stuck"
        step = (
            "Fix the resources in its last events, then run `aws cloudformation "
            f"continue-update-rollback --stack-name {stack}`."
        )
    elif status == "DELETE_FAILED":
        code = "infra.stack.stuck"
        step = f"Fix the resources in its last events, then run {destroy}."
    else:
        code, step = "infra.stack.stuck", ""
    message = f"The stack {stack} is {status} and cannot be changed now."
    raise UsageError(message, code=code, next_step=step, stack=stack, status=status)
