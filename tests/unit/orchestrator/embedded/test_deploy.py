"""The data stack: created once, updated if it differs, failures reported."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from piecework.errors import UnreachableError, UsageError
from piecework_orchestrator.embedded.deploy import deploy_data_stack
from piecework_orchestrator.infra import templates
from piecework_orchestrator.infra.templates import Part


class CloudFormation:
    """A fake CloudFormation with one stack and the mutating calls."""

    def __init__(self, status: str = "CREATE_COMPLETE") -> None:
        self.status = status
        self.stack: dict[str, Any] | None = None
        self.body = ""
        self.changes: list[str] = []

    def describe_stacks(self, **_: str) -> dict[str, Any]:
        if self.stack is None:
            answer: Any = {"Error": {"Code": "ValidationError", "Message": "none"}}
            raise ClientError(answer, "DescribeStacks")
        return {"Stacks": [self.stack]}

    def get_template(self, **_: str) -> dict[str, Any]:
        return {"TemplateBody": self.body}

    def create_stack(self, **request: Any) -> None:
        self._change("create", request)

    def update_stack(self, **request: Any) -> None:
        self._change("update", request)

    def _change(self, verb: str, request: dict[str, Any]) -> None:
        self.changes.append(verb)
        self.body = request["TemplateBody"]
        self.stack = {
            "StackId": "id",
            "StackName": request["StackName"],
            "StackStatus": self.status,
            "StackStatusReason": "bucket exists",
            "Parameters": request["Parameters"],
        }


def test_deploying_twice_changes_nothing_the_second_time() -> None:
    client = CloudFormation()
    deploy_data_stack(client, "piecework", "local")
    deploy_data_stack(client, "piecework", "local")
    assert client.changes == ["create"]
    assert client.body == templates.load(Part.DATA).text
    assert client.stack is not None
    assert client.stack["StackName"] == "piecework-local-data"


def test_a_queue_is_added_to_those_that_are_there() -> None:
    client = CloudFormation()
    for queues in (["gpu"], [], ["slow", "gpu"]):
        deploy_data_stack(client, "piecework", "local", queues)
    assert client.changes == ["create", "update"]
    assert client.stack is not None
    given = {p["ParameterKey"]: p["ParameterValue"] for p in client.stack["Parameters"]}
    assert ("gpu", "slow") == (given["Queue1"], given["Queue2"])
    with pytest.raises(UsageError) as refused:
        deploy_data_stack(client, "piecework", "local", ["a", "b"])
    assert refused.value.code == "embedded.queues.too_many"


def test_a_stack_with_an_older_template_is_updated() -> None:
    client = CloudFormation()
    deploy_data_stack(client, "piecework", "local")
    client.body = "an older template"
    deploy_data_stack(client, "piecework", "local")
    assert client.changes == ["create", "update"]


def test_a_rollback_is_reported_with_its_reason() -> None:
    client = CloudFormation(status="ROLLBACK_COMPLETE")
    with pytest.raises(UnreachableError, match="bucket exists") as failed:
        deploy_data_stack(client, "piecework", "local")
    assert failed.value.code == "embedded.deploy.failed"


def test_a_stack_that_does_not_finish_in_time_is_an_error() -> None:
    client = CloudFormation(status="CREATE_IN_PROGRESS")
    with pytest.raises(UnreachableError, match="still not complete after 120 s"):
        deploy_data_stack(client, "piecework", "local", sleep=lambda _: None)


def test_an_unreachable_endpoint_is_a_coded_error() -> None:
    class Unreachable(CloudFormation):
        def describe_stacks(self, **_: str) -> dict[str, Any]:
            raise EndpointConnectionError(endpoint_url="http://127.0.0.1:1")

    with pytest.raises(UnreachableError, match="piecework-local-data") as failed:
        deploy_data_stack(Unreachable(), "piecework", "local")
    assert failed.value.code == "embedded.deploy.failed"
