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


def test_a_write_returns_its_consumed_units_on_request(asking: Client) -> None:
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


def test_an_observer_is_not_counted(asking: Client) -> None:
    asking.open("dynamodb.GetItem", "bench-watcher x", TableName="t", Key=KEY)

    assert "dynamodb.GetItem" not in asking.aws_server.counts
