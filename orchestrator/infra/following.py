"""Follow a stack's events until its operation is over; failures come with reasons."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

from orchestrator.infra.refusals import InfraError, explained
from orchestrator.infra.stack import Found, Stack
from orchestrator.infra.standing import GONE, STILLBORN, over, succeeded

#: Looks at a stack that shows an end and no event of it.
PATIENCE: Final = 15


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened to one resource."""

    id: str
    at: str
    status: str
    resource: str
    type: str
    reason: str

    @property
    def failed(self) -> bool:
        """Whether it is a failure."""
        return self.status.endswith("_FAILED")

    def line(self) -> str:
        """Return it for people."""
        said = f"  {self.status:<28} {self.resource} ({self.type})"
        return f"{self.at}{said}{f': {self.reason}' if self.reason else ''}"


def follow(
    stack: Stack, stack_id: str, token: str, say: Callable[[str], None]
) -> Found | None:
    """Say each event of the operation that bears the token; return the stack's end.

    Raises:
        InfraError: `infra.deploy.failed`, with what failed first and its reason.
    """
    told: dict[str, Event] = {}
    for look in count():
        for event in reversed(list(_new_events(stack, stack_id, token, told))):
            told[event.id] = event
            say(event.line())
        found = stack.find(stack_id)
        if found is None or _ended(stack.name, found, told.values(), look):
            break
        stack.pause(stack.poll_s)
    if found is not None and not succeeded(found.status):
        raise failure(stack.name, found, list(told.values()))
    return found


def _ended(name: str, found: Found, told: Iterable[Event], look: int) -> bool:
    """Say whether the operation is over; a stack shows the state before for a moment.

    So its own event of the end is waited for, but not for ever: no more events are
    written of a stack that was empty.
    """
    own = [event for event in told if event.resource == name]
    seen = bool(own) and over(own[-1].status)
    return over(found.status) and (seen or found.status == GONE or look >= PATIENCE)


def failure(name: str, found: Found, events: list[Event]) -> InfraError:
    """Return the error: what failed first is the cause, the rest was cancelled."""
    failed = [event for event in events if event.failed]
    lines = [f"  {e.resource} ({e.type}): {e.reason}" for e in failed]
    said = "\n".join([f"The stack {name} ended in {found.status}.", *lines])
    step = ""
    if found.status == "DELETE_FAILED":
        step = "Mend what it names, then the same command again."
    elif found.status in STILLBORN:
        step = "Mend it, `piecework infra destroy` that stack, and deploy again."
    return InfraError(said, next_step=step, stack=name, status=found.status)


def _new_events(
    stack: Stack, stack_id: str, token: str, told: dict[str, Event]
) -> Iterator[Event]:
    """Yield what was not told yet, the newest first, as CloudFormation lists them."""
    with explained(stack.name):
        pages = stack.client.get_paginator("describe_stack_events").paginate(
            StackName=stack_id
        )
        for row in (row for page in pages for row in page["StackEvents"]):
            if row["EventId"] in told or row.get("ClientRequestToken") != token:
                return
            yield _event(row)


def _event(row: dict[str, Any]) -> Event:
    return Event(
        id=str(row["EventId"]),
        at=f"{row['Timestamp']:%H:%M:%S}",
        status=str(row["ResourceStatus"]),
        resource=str(row["LogicalResourceId"]),
        type=str(row["ResourceType"]),
        reason=str(row.get("ResourceStatusReason") or ""),
    )
