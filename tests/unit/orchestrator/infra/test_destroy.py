"""What goes, what stays, in which order, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from orchestrator.infra.destroy import destroy, foresee
from orchestrator.infra.environment import Environment
from orchestrator.infra.parts import Part
from orchestrator.infra.refusals import InfraError
from orchestrator.infra.site import Site
from piecework.errors import UsageError
from tests.unit.orchestrator.infra.cloudformation import (
    CloudFormation,
    Pages,
    Spoken,
    site_of,
)
from tests.unit.orchestrator.infra.conftest import DATA, PLAIN

PROD = Environment("shop", "prod")


class GoneError(Exception):
    pass


@dataclass
class DynamoDB:
    """Two tables, and the jobs that the list of active ones names."""

    jobs: list[str] = field(default_factory=list)
    tables: dict[str, dict[str, Any]] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)

    class exceptions:  # noqa: N801 -- as the SDK has it
        ResourceNotFoundException = GoneError

    def get_paginator(self, _: str) -> Pages:
        return Pages(self.query)

    def query(self, **_: Any) -> dict[str, Any]:
        if not self.tables:
            raise GoneError
        return {"Items": [{"job": {"S": job}} for job in self.jobs]}

    def describe_table(self, TableName: str) -> dict[str, Any]:  # noqa: N803
        if TableName not in self.tables:
            raise GoneError
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
        QueueDoesNotExist = GoneError

    def __init__(self) -> None:
        self.deleted = []

    def delete_queue(self, QueueUrl: str) -> None:  # noqa: N803
        if QueueUrl in self.deleted:
            raise GoneError
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
def site(
    cloudformation: CloudFormation, dynamodb: DynamoDB, sqs: SQS
) -> Iterator[Site]:
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
    return site_of(cloudformation, dynamodb=dynamodb, sqs=sqs)


def fates(site: Site, *, with_data: bool) -> dict[str, str]:
    planned = foresee(site, PROD, (), with_data=with_data)
    return {fate.resource: fate.fate for fate in planned.fates}


def test_the_data_stays_unless_it_is_named(site: Site) -> None:
    assert {"Thing": "goes"} == fates(site, with_data=False)
    assert {
        "Thing": "goes",
        "Table": "deleted",
        "Queue": "deleted",
        "Policy": "goes",
        "Bucket": "kept",
    } == fates(site, with_data=True)


def test_the_last_stack_goes_first_and_the_data_stack_is_not_touched(
    site: Site, cloudformation: CloudFormation, talk: Spoken
) -> None:
    destroy(site, foresee(site, PROD, (), with_data=False), talk)

    assert [
        ("delete", "shop-prod-alarms"),
        ("delete", "shop-prod-service"),
    ] == cloudformation.calls


def test_with_its_data_the_protections_are_turned_off_aloud(
    site: Site,
    cloudformation: CloudFormation,
    dynamodb: DynamoDB,
    sqs: SQS,
    talk: Spoken,
) -> None:
    destroy(site, foresee(site, PROD, (), with_data=True), talk)

    assert ["unprotect", "delete"] == dynamodb.calls
    assert ["the-queue"] == sqs.deleted
    assert ["protect", "delete"] == cloudformation.verbs()[2:]
    assert "the-table: deletion protection is turned off" in talk.said
    assert "shop-prod-data: termination protection is turned off" in talk.said


def test_a_removal_that_was_cut_off_can_be_begun_again(
    site: Site, dynamodb: DynamoDB, sqs: SQS, talk: Spoken
) -> None:
    planned = foresee(site, PROD, (Part.DATA,), with_data=True)
    dynamodb.tables.clear()
    sqs.deleted.append("the-queue")

    destroy(site, planned, talk)

    assert [] == dynamodb.calls


def test_while_a_job_runs_nothing_goes(site: Site, dynamodb: DynamoDB) -> None:
    dynamodb.jobs = [f"job-{n}" for n in range(7)]

    with pytest.raises(UsageError, match=r"7 jobs are .* job-4, …") as refused:
        foresee(site, PROD, (), with_data=False)

    assert "infra.jobs.running" == refused.value.code
    assert "piecework jobs list" in refused.value.next_step


def test_without_a_table_there_is_no_job(site: Site, dynamodb: DynamoDB) -> None:
    dynamodb.tables.clear()

    assert foresee(site, PROD, (), with_data=False).stacks


@pytest.mark.parametrize("status", ["REVIEW_IN_PROGRESS", "ROLLBACK_COMPLETE"])
def test_a_data_stack_that_never_came_into_being_is_removed_without_more_ado(
    site: Site, cloudformation: CloudFormation, talk: Spoken, status: str
) -> None:
    cloudformation.add("shop-prod-data", status)
    cloudformation.resources.clear()
    if status == "REVIEW_IN_PROGRESS":
        cloudformation.templates.clear()  # it has none

    planned = foresee(site, PROD, (Part.DATA,), with_data=False)
    destroy(site, planned, talk)

    assert [("delete", "shop-prod-data")] == cloudformation.calls


def test_a_stack_at_which_something_is_under_way_is_left_alone(
    site: Site, cloudformation: CloudFormation
) -> None:
    cloudformation.add("shop-prod-service", "UPDATE_IN_PROGRESS")

    with pytest.raises(UsageError) as refused:
        foresee(site, PROD, (), with_data=False)

    assert "infra.stack.busy" == refused.value.code


def test_a_stack_that_cannot_be_deleted_stops_it_with_the_reason(
    site: Site, cloudformation: CloudFormation, talk: Spoken
) -> None:
    cloudformation.ends = "DELETE_FAILED"
    cloudformation.failing = [("Thing", "DELETE_FAILED", "it is in use")]

    with pytest.raises(InfraError, match="it is in use") as failed:
        destroy(site, foresee(site, PROD, (), with_data=False), talk)

    assert "same command again" in failed.value.next_step
    assert 1 == cloudformation.verbs().count("delete")
