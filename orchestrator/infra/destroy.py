"""Take an environment's stacks away, the last first; its data stays unless it is named.

Tables and queues outlive their stack, so that no delete of a stack loses a record:
who wants them gone says so, and they are deleted here, by name. Buckets and keys are
never deleted by a command; it is said how.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from uuid import uuid4

from orchestrator.infra.by_name import delete_by_name
from orchestrator.infra.deploy import goes_on
from orchestrator.infra.environment import Environment
from orchestrator.infra.following import follow
from orchestrator.infra.parts import Part
from orchestrator.infra.refusals import explained
from orchestrator.infra.running import refuse_running
from orchestrator.infra.site import Site
from orchestrator.infra.stack import Found, Stack
from orchestrator.infra.standing import REVIEW, never_whole, over
from orchestrator.infra.talk import Talk
from orchestrator.infra.templates import parse
from piecework.errors import UsageError

#: What of the data is deleted by name, and what goes along with it.
FATES: Final = {
    "AWS::DynamoDB::Table": "deleted",
    "AWS::SQS::Queue": "deleted",
    "AWS::SQS::QueuePolicy": "goes",
}
KEEPS: Final = frozenset({"Retain", "RetainExceptOnCreate"})


@dataclass(frozen=True, slots=True)
class Fate:
    """What becomes of one resource.

    Attributes:
        fate: goes with its stack; deleted before it, by name; or kept.
    """

    stack: str
    resource: str
    id: str
    type: str
    fate: str

    def document(self) -> dict[str, str]:
        """Return it for programs."""
        return {
            "stack": self.stack,
            "resource": self.resource,
            "id": self.id,
            "type": self.type,
            "fate": self.fate,
        }


@dataclass(frozen=True, slots=True)
class Destruction:
    """What would go, and what would stay."""

    stacks: tuple[tuple[Part, Stack, Found], ...]
    fates: tuple[Fate, ...]


def foresee(
    site: Site, environment: Environment, parts: tuple[Part, ...], *, with_data: bool
) -> Destruction:
    """Look at what would go; raise while jobs run.

    Raises:
        UsageError: `infra.jobs.running`, `infra.stack.busy`.
    """
    found = tuple(_present(site, environment, parts, with_data=with_data))
    if any(not never_whole(there.status) for _, _, there in found):
        refuse_running(site, environment)
    fates = [
        fate
        for part, stack, there in found
        if there.status != REVIEW
        for fate in _fates(stack, data=with_data and part is Part.DATA)
    ]
    return Destruction(found, tuple(fates))


def destroy(site: Site, planned: Destruction, talk: Talk) -> None:
    """Delete the stacks, one after the other, and of the data what outlives its stack.

    Raises:
        InfraError: `infra.deploy.failed`: a stack was not deleted, and what it stands
            on neither; `infra.delete.failed`.
    """
    for part, stack, found in planned.stacks:
        if part is Part.DATA:
            # Before their stack: it still names them, should this be begun again.
            gone = [(f.type, f.id) for f in planned.fates if f.fate == "deleted"]
            delete_by_name(site, gone, talk)
        _delete(stack, found, talk)


def _present(
    site: Site, environment: Environment, parts: tuple[Part, ...], *, with_data: bool
) -> Iterator[tuple[Part, Stack, Found]]:
    for part in reversed(Part):
        stack = site.stack(environment, part)
        meant = part in parts if parts else True
        found = stack.find() if meant else None
        if found is None:
            continue
        whole = not never_whole(found.status)
        if part is Part.DATA and whole and not with_data:
            continue
        if whole and not over(found.status):
            message = f"The stack {stack.name} is in {found.status}."
            raise UsageError(message, code="infra.stack.busy")
        yield part, stack, found


def _fates(stack: Stack, *, data: bool) -> Iterator[Fate]:
    declared: Mapping[str, Any] = parse(stack.template())["Resources"]
    for row in stack.resources():
        policy = declared.get(row["resource"], {}).get("DeletionPolicy")
        fate = "kept" if policy in KEEPS else "goes"
        if data:
            fate = FATES.get(row["type"], fate)
        yield Fate(stack.name, row["resource"], row["id"], row["type"], fate)


def _delete(stack: Stack, found: Found, talk: Talk) -> None:
    token = uuid4().hex
    with explained(stack.name):
        if found.protected:
            talk.say(f"{stack.name}: termination protection is turned off")
            stack.client.update_termination_protection(
                StackName=stack.name, EnableTerminationProtection=False
            )
        stack.client.delete_stack(StackName=found.id, ClientRequestToken=token)
    with goes_on(stack.name, talk):
        follow(stack, found.id, token, talk.say)
