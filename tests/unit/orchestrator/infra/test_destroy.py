"""What `destroy` deletes and retains, in which order, and when it refuses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from piecework.domain import keys
from piecework.errors import UsageError
from piecework_orchestrator.infra.destroy import destroy, plan_destroy
from piecework_orchestrator.infra.environment import Environment
from piecework_orchestrator.infra.errors import InfraError
from piecework_orchestrator.infra.session import AwsSession
from piecework_orchestrator.infra.templates import Part
from tests.unit.orchestrator.infra.cloudformation import (
    CloudFormation,
    FakeInteraction,
    Pages,
    session_of,
)
from tests.unit.orchestrator.infra.conftest import DATA, PLAIN

PROD = Environment("shop", "prod")


class NotFoundFakeError(Exception):
    pass


@dataclass
class DynamoDB:
    """Fake DynamoDB with tables, and the ids of the active jobs."""

    jobs: list[str] = field(default_factory=list)
    tables: dict[str, dict[str, Any]] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)

    class exceptions:  # noqa: N801 -- as the SDK has it
        ResourceNotFoundException = NotFoundFakeError

    def get_paginator(self, _: str) -> Pages:
        return Pages(self.query)

    def query(self, **_: Any) -> dict[str, Any]:
        if not self.tables:
            raise NotFoundFakeError
        marks = [keys.active_sk("default", job) for job in self.jobs]
        # A row beside the jobs, which has no job.
        marks.append(keys.outbox_sk("default"))
        return {"Items": [{"sk": {"S": mark}} for mark in marks]}

    def describe_table(self, TableName: str) -> dict[str, Any]:  # noqa: N803
        if TableName not in self.tables:
            raise NotFoundFakeError
        return {"Table": self.tables[TableName]}

    def update_table(self, **request: Any) -> None:
        self.calls.append("unprotect")
        protection = {"DeletionProtectionEnabled": request["DeletionProtectionEnabled"]}
        self.tables[request["TableName"]].update(protection)

    def delete_table(self, TableName: str) -> None:  # noqa: N803
        assert not self.tables.pop(TableName)["DeletionProtectionEnabled"]
        self.calls.append("delete")


class SQS:
    deleted: list[str]

    class exceptions:  # noqa: N801 -- as the SDK has it
        QueueDoesNotExist = NotFoundFakeError

    def __init__(self) -> None:
        self.deleted = []

    def delete_queue(self, QueueUrl: str) -> None:  # noqa: N803
        if QueueUrl in self.deleted:
            raise NotFoundFakeError
        self.deleted.append(QueueUrl)


def row(name: str, kind: str, status: str = "CREATE_COMPLETE") -> dict[str, str]:
    return {
        "LogicalResourceId": name,
        "PhysicalResourceId": f"the-{name.lower()}",
        "ResourceType": kind,
        "ResourceStatus": status,
    }


@pytest.fixture
def dynamodb() -> DynamoDB:
    table = {"TableStatus": "ACTIVE", "DeletionProtectionEnabled": True}
    return DynamoDB(tables={"the-table": table})


@pytest.fixture
def sqs() -> SQS:
    return SQS()


@pytest.fixture
def session(
    cloudformation: CloudFormation, dynamodb: DynamoDB, sqs: SQS
) -> Iterator[AwsSession]:
    for part in (Part.DATA, Part.SERVICE, Part.ALARMS):
        name = f"shop-prod-{part}"
        protected = part is Part.DATA
        cloudformation.add(name, EnableTerminationProtection=protected)
        cloudformation.templates[name] = DATA if part is Part.DATA else PLAIN
    cloudformation.resources = {
        "shop-prod-data": [
            row("Table", "AWS::DynamoDB::Table"),
            row("Queue", "AWS::SQS::Queue"),
            row("Policy", "AWS::SQS::QueuePolicy"),
            row("Bucket", "AWS::S3::Bucket"),
            row("Earlier", "AWS::S3::Bucket", "DELETE_COMPLETE"),
        ],
        "shop-prod-alarms": [row("Thing", "AWS::SNS::Topic")],
    }
    return session_of(cloudformation, dynamodb=dynamodb, sqs=sqs)


def planned_actions(session: AwsSession, *, with_data: bool) -> dict[str, str]:
    planned = plan_destroy(session, PROD, (), with_data=with_data)
    return {row.resource: row.action for row in planned.resources}


def test_data_is_retained_unless_it_is_requested(session: AwsSession) -> None:
    assert {"Thing": "delete-with-stack"} == planned_actions(session, with_data=False)
    assert {
        "Thing": "delete-with-stack",
        "Table": "delete-by-name",
        "Queue": "delete-by-name",
        "Policy": "delete-with-stack",
        "Bucket": "retain",
    } == planned_actions(session, with_data=True)


def test_the_last_stack_is_deleted_first_and_the_data_stack_stays(
    session: AwsSession, cloudformation: CloudFormation, interaction: FakeInteraction
) -> None:
    destroy(session, plan_destroy(session, PROD, (), with_data=False), interaction)

    assert [
        ("delete", "shop-prod-alarms"),
        ("delete", "shop-prod-service"),
    ] == cloudformation.calls


def test_deleting_data_reports_that_protections_are_turned_off(
    session: AwsSession,
    cloudformation: CloudFormation,
    dynamodb: DynamoDB,
    sqs: SQS,
    interaction: FakeInteraction,
) -> None:
    destroy(session, plan_destroy(session, PROD, (), with_data=True), interaction)

    assert ["unprotect", "delete"] == dynamodb.calls
    assert ["the-queue"] == sqs.deleted
    assert ["protect", "delete"] == cloudformation.verbs()[2:]
    assert "the-table: turning off deletion protection" in interaction.reports
    assert "shop-prod-data: turning off termination protection" in interaction.reports


def test_an_interrupted_removal_can_be_repeated(
    session: AwsSession, dynamodb: DynamoDB, sqs: SQS, interaction: FakeInteraction
) -> None:
    planned = plan_destroy(session, PROD, (Part.DATA,), with_data=True)
    dynamodb.tables.clear()
    sqs.deleted.append("the-queue")

    destroy(session, planned, interaction)

    assert [] == dynamodb.calls


def test_nothing_is_deleted_while_a_job_runs(
    session: AwsSession, dynamodb: DynamoDB
) -> None:
    dynamodb.jobs = [f"job-{n}" for n in range(7)]

    with pytest.raises(UsageError, match=r"7 jobs are .* job-4, …") as refused:
        plan_destroy(session, PROD, (), with_data=False)

    assert "infra.jobs.running" == refused.value.code
    assert "piecework jobs list" in refused.value.next_step


def test_without_a_table_there_are_no_running_jobs(
    session: AwsSession, dynamodb: DynamoDB
) -> None:
    dynamodb.tables.clear()

    assert plan_destroy(session, PROD, (), with_data=False).stacks


@pytest.mark.parametrize("status", ["REVIEW_IN_PROGRESS", "ROLLBACK_COMPLETE"])
def test_a_data_stack_that_was_never_created_is_removed_like_any_other(
    session: AwsSession,
    cloudformation: CloudFormation,
    interaction: FakeInteraction,
    status: str,
) -> None:
    cloudformation.add("shop-prod-data", status)
    cloudformation.resources.clear()
    if status == "REVIEW_IN_PROGRESS":
        cloudformation.templates.clear()  # it has none

    planned = plan_destroy(session, PROD, (Part.DATA,), with_data=False)
    destroy(session, planned, interaction)

    assert [("delete", "shop-prod-data")] == cloudformation.calls


def test_a_stack_with_an_operation_in_progress_is_refused(
    session: AwsSession, cloudformation: CloudFormation
) -> None:
    cloudformation.add("shop-prod-service", "UPDATE_IN_PROGRESS")

    with pytest.raises(UsageError) as refused:
        plan_destroy(session, PROD, (), with_data=False)

    assert "infra.stack.busy" == refused.value.code


def test_a_failed_delete_stops_the_destroy_with_the_reason(
    session: AwsSession, cloudformation: CloudFormation, interaction: FakeInteraction
) -> None:
    cloudformation.ends = "DELETE_FAILED"
    cloudformation.failing = [("Thing", "DELETE_FAILED", "it is in use")]

    with pytest.raises(InfraError, match="it is in use") as failed:
        destroy(session, plan_destroy(session, PROD, (), with_data=False), interaction)

    assert "same command again" in failed.value.next_step
    assert 1 == cloudformation.verbs().count("delete")
