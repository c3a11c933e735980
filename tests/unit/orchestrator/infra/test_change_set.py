"""Change sets with replies as AWS documents them, checked against the SDK's model."""

from __future__ import annotations

from typing import Any

import boto3
import pytest
from botocore.stub import ANY, Stubber

from piecework_orchestrator.infra.change_set import Change, create_change_set
from piecework_orchestrator.infra.errors import InfraError
from piecework_orchestrator.infra.stack import Stack
from piecework_orchestrator.infra.templates import Part, Template

TEMPLATE = Template(Part.DATA, "Resources: {Table: {Type: 'AWS::DynamoDB::Table'}}")
SET, STACK = "arn:aws:cloudformation:change-set/one", "arn:aws:cloudformation:stack/two"
ASKED = {"ChangeSetName": SET, "IncludePropertyValues": True}
MADE = {"Status": "CREATE_COMPLETE"}


@pytest.fixture(scope="module")
def client() -> Any:
    keys = {"aws_access_key_id": "x", "aws_secret_access_key": "x"}
    return boto3.client("cloudformation", region_name="eu-central-1", **keys)


@pytest.fixture
def stub(client: Any) -> Any:
    with Stubber(client) as stubber:
        yield stubber
        stubber.assert_no_pending_responses()


def row(**facts: Any) -> dict[str, Any]:
    kind = {"ResourceType": "AWS::DynamoDB::Table", "LogicalResourceId": "Table"}
    return {"Type": "Resource", "ResourceChange": {**kind, **facts}}


def proposed(client: Any) -> Any:
    waited: list[float] = []
    stack = Stack(client, "shop-prod-data", waited.append, 2.0)
    found = create_change_set(stack, TEMPLATE, [], name="piecework-1", new=False)
    return found, waited


def begin(stub: Any) -> None:
    asked = {"StackName": "shop-prod-data", "ChangeSetName": "piecework-1"}
    rest = {"TemplateBody": ANY, "Parameters": [], "Capabilities": []}
    request = {**asked, **rest, "ChangeSetType": "UPDATE"}
    stub.add_response("create_change_set", {"Id": SET, "StackId": STACK}, request)


def test_a_change_set_is_awaited_and_all_its_pages_are_read(
    client: Any, stub: Any
) -> None:
    detail = {
        "Target": {
            "Attribute": "Properties",
            "Name": "TableName",
            "RequiresRecreation": "Always",
            "BeforeValue": "old",
            "AfterValue": "new",
        },
        "Evaluation": "Static",
        "ChangeSource": "DirectModification",
    }
    replaced = row(
        Action="Modify",
        Replacement="True",
        PolicyAction="ReplaceAndRetain",
        Details=[detail, detail],
    )
    begin(stub)
    stub.add_response("describe_change_set", {"Status": "CREATE_PENDING"}, ASKED)
    first = {**MADE, "Changes": [replaced], "NextToken": "more"}
    stub.add_response("describe_change_set", first, ASKED)
    second = {**MADE, "Changes": [row(Action="Remove", PolicyAction="Delete")]}
    stub.add_response("describe_change_set", second, {**ASKED, "NextToken": "more"})

    found, waited = proposed(client)

    kind = "AWS::DynamoDB::Table"
    assert (
        Change(
            "Modify",
            "Table",
            kind,
            "True",
            retained=True,
            properties=("TableName: old to new",),
        ),
        Change("Remove", "Table", kind),
    ) == found.changes
    assert all(change.destructive for change in found.changes)
    assert [2.0] == waited


def test_an_update_without_changes_is_empty_with_cloudformations_reason(
    client: Any, stub: Any
) -> None:
    begin(stub)
    nothing = {"Status": "FAILED", "StatusReason": "didn't contain changes"}
    stub.add_response("describe_change_set", nothing, ASKED)

    found, _ = proposed(client)

    assert ((), "didn't contain changes") == (found.changes, found.empty_reason)


def test_a_change_set_that_failed_with_changes_is_refused_and_deleted(
    client: Any, stub: Any
) -> None:
    begin(stub)
    failed = {
        "Status": "FAILED",
        "StatusReason": "a hook refused",
        "Changes": [row(Action="Modify", Replacement="False")],
    }
    stub.add_response("describe_change_set", failed, ASKED)
    stub.add_response("delete_change_set", {}, {"ChangeSetName": SET})

    with pytest.raises(InfraError, match="a hook refused") as refused:
        proposed(client)

    assert "infra.change.refused" == refused.value.code


def test_a_property_with_long_values_is_named_without_them(
    client: Any, stub: Any
) -> None:
    target = {
        "Attribute": "Properties",
        "Name": "PolicyDocument",
        "BeforeValue": "{}",
        "AfterValue": "x" * 50,
    }
    begin(stub)
    found = row(Action="Modify", Replacement="False", Details=[{"Target": target}])
    stub.add_response("describe_change_set", {**MADE, "Changes": [found]}, ASKED)

    (change,) = proposed(client)[0].changes

    assert (("PolicyDocument",), False) == (change.properties, change.destructive)
