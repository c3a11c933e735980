"""Remove the stacks of an environment in reverse order; keep its data by default.

Tables and queues are retained when their stack goes, so deleting a stack never loses
a record. With `--with-data`, `destroy` deletes them by name. Buckets and keys are never
deleted by a command; `destroy` prints how to delete them by hand.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final
from uuid import uuid4

from piecework.domain import keys
from piecework.errors import UsageError
from piecework.settings import Settings
from piecework_orchestrator.infra.deploy import noting_interrupt
from piecework_orchestrator.infra.environment import Environment
from piecework_orchestrator.infra.errors import InfraError, translated_aws_errors
from piecework_orchestrator.infra.session import AwsSession, Interaction
from piecework_orchestrator.infra.stack import (
    IN_REVIEW,
    Stack,
    StackState,
    follow,
    is_finished,
    was_never_created,
)
from piecework_orchestrator.infra.templates import Part, parse

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


# ── delete tables and queues by name ──────────────────────────────────────────
#
# Deleting twice does no harm: a table or queue that does not exist is skipped.

#: Polls of a table that is changing; a change takes DynamoDB seconds.
MAX_POLLS: Final = 150
TABLE_POLL_S: Final = 1.0


def delete_by_name(
    session: AwsSession, resources: Iterable[tuple[str, str]], interaction: Interaction
) -> None:
    """Delete each resource, given as CloudFormation type and physical id.

    Raises:
        InfraError: `infra.delete.failed`.
    """
    sqs, dynamodb = session.make_client("sqs"), session.make_client("dynamodb")
    for kind, name in resources:
        if kind == "AWS::DynamoDB::Table":
            with translated_aws_errors(name, "dynamodb"):
                _delete_table(session, dynamodb, name, interaction)
        else:
            with translated_aws_errors(name, "sqs"):
                _delete_queue(sqs, name)
        interaction.report(f"{name} is deleted")


def _delete_queue(sqs: Any, url: str) -> None:
    with suppress(sqs.exceptions.QueueDoesNotExist):
        sqs.delete_queue(QueueUrl=url)


def _delete_table(
    session: AwsSession, dynamodb: Any, name: str, interaction: Interaction
) -> None:
    with suppress(dynamodb.exceptions.ResourceNotFoundException):
        table = _wait_until_active(session, dynamodb, name)
        if table.get("DeletionProtectionEnabled"):
            interaction.report(f"{name}: turning off deletion protection")
            dynamodb.update_table(TableName=name, DeletionProtectionEnabled=False)
            _wait_until_active(session, dynamodb, name)
        dynamodb.delete_table(TableName=name)


def _wait_until_active(session: AwsSession, dynamodb: Any, name: str) -> dict[str, Any]:
    """Wait until the table accepts a change; return its description."""
    for _ in range(MAX_POLLS):
        table: dict[str, Any] = dynamodb.describe_table(TableName=name)["Table"]
        if table["TableStatus"] == "ACTIVE":
            return table
        session.sleep(TABLE_POLL_S)
    message = f"The table {name} is still {table['TableStatus']} and was not deleted."
    raise InfraError(message, code="infra.delete.failed")


# ── running jobs of every tenant ──────────────────────────────────────────────

#: Job ids in the error message.
MAX_NAMED_JOBS: Final = 5


def refuse_running_jobs(session: AwsSession, environment: Environment) -> None:
    """Raise if the environment has running jobs.

    Raises:
        UsageError: `infra.jobs.running`.
    """
    jobs = running_jobs(session, environment)
    if not jobs:
        return
    named = ", ".join(jobs[:MAX_NAMED_JOBS]) + (
        ", …" if len(jobs) > MAX_NAMED_JOBS else ""
    )
    count = "1 job is" if len(jobs) == 1 else f"{len(jobs)} jobs are"
    message = f"{count} still running in {environment.name}: {named}."
    raise UsageError(message, code="infra.jobs.running")


def running_jobs(session: AwsSession, environment: Environment) -> list[str]:
    """Return the ids of jobs that have not ended; empty if the table does not exist."""
    table = Settings(app=environment.app, env=environment.env).checkpoints_table
    dynamodb = session.make_client("dynamodb")
    with translated_aws_errors(table, "dynamodb"):
        try:
            return _query_active_jobs(dynamodb, table)
        except dynamodb.exceptions.ResourceNotFoundException:
            return []


def _query_active_jobs(dynamodb: Any, table: str) -> list[str]:
    pages = dynamodb.get_paginator("query").paginate(
        TableName=table,
        KeyConditionExpression="pk = :active",
        ExpressionAttributeValues={":active": {"S": keys.ACTIVE_PK}},
        ConsistentRead=True,
    )
    found = (keys.job_of_active_sk(r["sk"]["S"]) for p in pages for r in p["Items"])
    return [named[1] for named in found if named is not None]
