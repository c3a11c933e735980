"""What the embedded emulator takes of every template; the rest is told."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from piecework.aws.endpoint import Emulator
from piecework_orchestrator.embedded.deploy import make_client
from tests.infra.check.documented import documented
from tests.infra.check.emulator import SERVICES, Found, try_out
from tests.infra.check.templates import INFRA, load
from tests.own_emulator import own_emulator


@pytest.fixture(scope="module")
def wide_emulator() -> Iterator[Emulator]:
    """Run an emulator with the services that all templates need."""
    with own_emulator(SERVICES) as running:
        yield running


@pytest.fixture(scope="module")
def found(wide_emulator: Emulator) -> Found:
    """Deploy all stacks in two environments."""
    return try_out(wide_emulator, load())


def test_the_stacks_are_deployed_as_far_as_the_emulator_goes(found: Found) -> None:
    twice = {
        "AWS::DynamoDB::Table": 4,
        "AWS::ECS::Service": 4,
        "AWS::S3::Bucket": 2,
        "AWS::SQS::Queue": 6,  # with two of pipelines
    }
    assert twice == {kind: found.deployed[kind] for kind in twice}


def test_what_it_refuses_is_what_the_page_says(found: Found) -> None:
    assert documented() == found.refused


def test_a_key_of_ones_own_can_be_turned_on_and_replaces_nothing(
    wide_emulator: Emulator,
) -> None:
    cloudformation, dynamodb = (
        make_client(service, wide_emulator)
        for service in ("cloudformation", "dynamodb")
    )
    text = (INFRA / "data.yaml").read_text(encoding="utf-8")

    def put(act: Any, waiter: str, encryption: str) -> dict[str, str]:
        given = {"Env": "turned", "Encryption": encryption}
        parameters = [
            {"ParameterKey": key, "ParameterValue": value}
            for key, value in given.items()
        ]
        act(StackName="turned", TemplateBody=text, Parameters=parameters)
        waiting = cloudformation.get_waiter(waiter)
        waiting.wait(StackName="turned", WaiterConfig={"Delay": 0.05})
        listed = cloudformation.list_stack_resources(StackName="turned")
        return {
            each["LogicalResourceId"]: each["PhysicalResourceId"]
            for each in listed["StackResourceSummaries"]
        }

    before = put(cloudformation.create_stack, "stack_create_complete", "aws")
    record = {"pk": {"S": "a"}, "sk": {"S": "b"}}
    dynamodb.put_item(TableName=before["Checkpoints"], Item=record)
    after = put(cloudformation.update_stack, "stack_update_complete", "customer")
    kept = dynamodb.get_item(TableName=before["Checkpoints"], Key=record)

    assert {"Key", "KeyAlias"} == after.keys() - before.keys()
    assert before == {name: after[name] for name in before}
    assert record == kept["Item"]
    cloudformation.close()
    dynamodb.close()
