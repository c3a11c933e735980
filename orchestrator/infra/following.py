"""Follow the events of a stack until its operation ends, and report failures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

from orchestrator.infra.refusals import InfraError, translated_aws_errors
from orchestrator.infra.stack import Stack, StackState
from orchestrator.infra.standing import (
    CREATION_FAILED,
    DELETED,
    has_succeeded,
    is_finished,
)

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
