from __future__ import annotations

from typing import Any

import pytest

from verification.bench.aws_server.client import Client, Reply

KEY = {"pk": {"S": "p"}, "sk": {"S": "s"}}
LARGE = {**KEY, "text": {"S": "x" * 2_000}}


@pytest.fixture
def asking() -> Client:
    made = Client()
    create(made, "t", "pk", "sk")
    create(made, "once", "id")
    return made


def create(asking: Client, name: str, *keys: str) -> Reply:
    return asking.handle(
        "dynamodb.CreateTable",
        TableName=name,
        KeySchema=[{"AttributeName": key, "KeyType": "HASH"} for key in keys],
        AttributeDefinitions=[],
    )


def write(asking: Client, operation: str, **request: Any) -> Reply:
    return asking.handle(f"dynamodb.{operation}", **{"TableName": "t", **request})


def test_a_write_is_billed_by_the_larger_of_the_items_sizes(asking: Client) -> None:
    write(asking, "PutItem", Item=LARGE)
    write(asking, "PutItem", Item=KEY)
    write(asking, "PutItem", Item=KEY)

    assert 2 + 2 + 1 == asking.units("dynamodb.PutItem")


def test_a_write_tells_what_it_consumed_when_it_is_asked(asking: Client) -> None:
    said = write(asking, "PutItem", Item=LARGE, ReturnConsumedCapacity="TOTAL").said

    assert {"ConsumedCapacity": {"TableName": "t", "CapacityUnits": 2}} == said


def test_a_read_is_billed_by_what_it_found(asking: Client) -> None:
    write(asking, "PutItem", Item=LARGE)
    write(asking, "GetItem", Key=KEY, ConsistentRead=True)
    ok_answer = write(asking, "GetItem", Key=KEY)

    assert LARGE == ok_answer.said["Item"]
    assert 1 + 0.5 == asking.units("dynamodb.GetItem")


def test_a_transaction_is_billed_twice_with_what_it_only_looked_at(
    asking: Client,
) -> None:
    write(asking, "PutItem", Item=LARGE)
    put = {"TableName": "t", "Item": {"pk": {"S": "q"}, "sk": {"S": "s"}}}
    there = {
        "TableName": "t",
        "Key": KEY,
        "ConditionExpression": "attribute_exists(pk)",
    }
    answer = asking.handle(
        "dynamodb.TransactWriteItems",
        TransactItems=[{"Put": put}, {"ConditionCheck": there}],
        ReturnConsumedCapacity="TOTAL",
    )

    assert 2 * (1 + 2) == asking.units("dynamodb.TransactWriteItems")
    assert 6 == answer.said["ConsumedCapacity"][0]["CapacityUnits"]


def test_a_refused_write_shows_the_item_and_is_billed_for_it(asking: Client) -> None:
    write(asking, "PutItem", Item=LARGE)
    error_answer = write(
        asking,
        "PutItem",
        Item=KEY,
        ConditionExpression="attribute_not_exists(pk)",
        ReturnValuesOnConditionCheckFailure="ALL_OLD",
    )

    assert 400 == error_answer.status
    assert "ConditionalCheckFailedException" == error_answer.said["__type"]
    assert LARGE == error_answer.said["Item"]
    assert 2 + 2 == asking.units("dynamodb.PutItem")


def test_binary_values_are_kept_as_bytes(asking: Client) -> None:
    item = {**KEY, "b": {"B": "aGVsbG8="}, "many": {"BS": ["eA==", "eQ=="]}}
    write(asking, "PutItem", Item=item)

    assert item == write(asking, "GetItem", Key=KEY).said["Item"]


def test_a_table_may_have_no_sort_key_and_a_key_of_its_own_name(
    asking: Client,
) -> None:
    item = {"id": {"S": "x"}, "status": {"S": "DONE"}}
    once = {
        "TableName": "once",
        "Item": item,
        "ConditionExpression": "attribute_not_exists(#id)",
        "ExpressionAttributeNames": {"#id": "id"},
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }
    assert 200 == write(asking, "PutItem", **once).status

    assert item == write(asking, "PutItem", **once).said["Item"]
    key = {"id": {"S": "x"}}
    assert item == write(asking, "GetItem", TableName="once", Key=key).said["Item"]


def test_a_table_comes_and_goes(asking: Client) -> None:
    assert "ResourceInUseException" == create(asking, "t", "pk", "sk").said["__type"]
    described = write(asking, "DescribeTable").said["Table"]
    assert "ACTIVE" == described["TableStatus"]

    write(asking, "DeleteTable")

    for operation in ("DescribeTable", "DeleteTable", "GetItem"):
        gone = write(asking, operation, Key=KEY)
        assert "ResourceNotFoundException" == gone.said["__type"]


def test_what_is_not_modelled_is_said(
    asking: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    assert 501 == write(asking, "BatchGetItem").status
    assert 501 == write(asking, "GetItem", Key=KEY, ProjectionExpression="a").status
    assert "BatchGetItem" in capsys.readouterr().err


def test_an_observer_is_not_counted(asking: Client) -> None:
    asking.open("dynamodb.GetItem", "bench-watcher x", TableName="t", Key=KEY)

    assert "dynamodb.GetItem" not in asking.aws_server.counts
