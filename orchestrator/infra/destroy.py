"""Remove the stacks of an environment in reverse order; keep its data by default.

Tables and queues are retained when their stack goes, so deleting a stack never loses
a record. With `--with-data`, `destroy` deletes them by name. Buckets and keys are never
deleted by a command; `destroy` prints how to delete them by hand.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from uuid import uuid4

from orchestrator.infra.by_name import delete_by_name
from orchestrator.infra.deploy import noting_interrupt
from orchestrator.infra.environment import Environment
from orchestrator.infra.following import follow
from orchestrator.infra.parts import Part
from orchestrator.infra.refusals import translated_aws_errors
from orchestrator.infra.running import refuse_running_jobs
from orchestrator.infra.site import AwsSession
from orchestrator.infra.stack import Stack, StackState
from orchestrator.infra.standing import IN_REVIEW, is_finished, was_never_created
from orchestrator.infra.talk import Interaction
from orchestrator.infra.templates import parse
from piecework.errors import UsageError

#: Actions for the data stack's resources that a stack delete alone would retain.
DATA_ACTIONS: Final = {
    "AWS::DynamoDB::Table": "delete-by-name",
    "AWS::SQS::Queue": "delete-by-name",
    "AWS::SQS::QueuePolicy": "delete-with-stack",
}
RETAIN_POLICIES: Final = frozenset({"Retain", "RetainExceptOnCreate"})


@dataclass(frozen=True, slots=True)
class ResourcePlan:
    """The planned action for one resource.

    Attributes:
        action: `delete-with-stack`, `delete-by-name` (before its stack) or `retain`.
    """

    stack: str
    resource: str
    id: str
    type: str
    action: str

    def document(self) -> dict[str, str]:
        """Return the plan of this resource as a JSON document."""
        return {
            "stack": self.stack,
            "resource": self.resource,
            "id": self.id,
            "type": self.type,
            "action": self.action,
        }


@dataclass(frozen=True, slots=True)
class DestroyPlan:
    """The stacks to delete, and the action for each of their resources."""

    stacks: tuple[tuple[Part, Stack, StackState], ...]
    resources: tuple[ResourcePlan, ...]


def plan_destroy(
    session: AwsSession,
    environment: Environment,
    parts: tuple[Part, ...],
    *,
    with_data: bool,
) -> DestroyPlan:
    """Return what `destroy` would delete and retain; refuse while jobs run.

    Raises:
        UsageError: `infra.jobs.running`, `infra.stack.busy`.
    """
    found = tuple(_existing_stacks(session, environment, parts, with_data=with_data))
    if any(not was_never_created(state.status) for _, _, state in found):
        refuse_running_jobs(session, environment)
    resources = [
        resource
        for part, stack, state in found
        if state.status != IN_REVIEW
        for resource in _plan_resources(stack, data=with_data and part is Part.DATA)
    ]
    return DestroyPlan(found, tuple(resources))


def destroy(session: AwsSession, plan: DestroyPlan, interaction: Interaction) -> None:
    """Delete the stacks one after the other, and the resources planned by name.

    Raises:
        InfraError: `infra.deploy.failed`: a stack was not deleted, and neither were the
            stacks that it depends on; `infra.delete.failed`.
    """
    for part, stack, found in plan.stacks:
        if part is Part.DATA:
            # Before their stack: if `destroy` is repeated, the stack still names them.
            by_name = [
                (resource.type, resource.id)
                for resource in plan.resources
                if resource.action == "delete-by-name"
            ]
            delete_by_name(session, by_name, interaction)
        _delete_stack(stack, found, interaction)


def _existing_stacks(
    session: AwsSession,
    environment: Environment,
    parts: tuple[Part, ...],
    *,
    with_data: bool,
) -> Iterator[tuple[Part, Stack, StackState]]:
    for part in reversed(Part):
        stack = session.stack(environment, part)
        chosen = part in parts if parts else True
        found = stack.find() if chosen else None
        if found is None:
            continue
        created = not was_never_created(found.status)
        if part is Part.DATA and created and not with_data:
            continue
        if created and not is_finished(found.status):
            message = f"The stack {stack.name} is {found.status}."
            raise UsageError(message, code="infra.stack.busy")
        yield part, stack, found


def _plan_resources(stack: Stack, *, data: bool) -> Iterator[ResourcePlan]:
    declared: Mapping[str, Any] = parse(stack.template())["Resources"]
    for row in stack.resources():
        policy = declared.get(row["resource"], {}).get("DeletionPolicy")
        action = "retain" if policy in RETAIN_POLICIES else "delete-with-stack"
        if data:
            action = DATA_ACTIONS.get(row["type"], action)
        yield ResourcePlan(stack.name, row["resource"], row["id"], row["type"], action)


def _delete_stack(stack: Stack, found: StackState, interaction: Interaction) -> None:
    token = uuid4().hex
    with translated_aws_errors(stack.name):
        if found.protected:
            interaction.report(f"{stack.name}: turning off termination protection")
            stack.client.update_termination_protection(
                StackName=stack.name, EnableTerminationProtection=False
            )
        stack.client.delete_stack(StackName=found.id, ClientRequestToken=token)
    with noting_interrupt(stack.name, interaction):
        follow(stack, found.id, token, interaction.report)
