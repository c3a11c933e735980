"""Test the behaviour of the model that no probe can observe on a server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from botocore.exceptions import ClientError

from piecework_simulation.aws.dynamodb import Change, DynamoDB
from piecework_simulation.aws.values import item_size
from verification.conformance.items import expressed, key, row


class Clock:
    def __init__(self) -> None:
        self.time = 0.0

    def __call__(self) -> float:
        return self.time


class Stale:
    """Every read that may be stale is."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def fires(self, kind: str) -> bool:
        self.asked.append(kind)
        return True


def made(**parts: Any) -> DynamoDB:
    return DynamoDB(lambda: 0.0, tables=["t", "other"], **parts)


def put(model: DynamoDB, sk: str = "a", table: str = "t", **values: Any) -> None:
    model.call("put_item", {"TableName": table, "Item": row(sk, **values)})


def put_of(sk: str, condition: str = "", table: str = "t", **values: Any) -> Any:
    item = row(sk, **values)
    return {"Put": {"TableName": table, "Item": item, **expressed("", condition)}}


def get(model: DynamoDB, sk: str = "a", *, consistent: bool = False) -> Any:
    request = {"TableName": "t", "Key": key(sk), "ConsistentRead": consistent}
    return model.call("get_item", request).get("Item")


def query(model: DynamoDB, *, consistent: bool = False) -> list[str]:
    request: dict[str, Any] = {
        "TableName": "t",
        "KeyConditionExpression": "pk = :pk",
        "ExpressionAttributeValues": {":pk": key()["pk"]},
        "ConsistentRead": consistent,
    }
    found = []
    while True:
        page = model.call("query", request)
        found += [item["sk"]["S"] for item in page["Items"]]
        if "LastEvaluatedKey" not in page:
            return found
        request["ExclusiveStartKey"] = page["LastEvaluatedKey"]
        found.append("|")


def test_a_stale_get_shows_the_item_as_it_was_before_its_last_write() -> None:
    model = made(chaos=Stale())
    put(model, n=1)
    assert get(model) is None
    put(model, n=2)
    put(model, "b")
    assert row(n=1) == get(model)
    assert row(n=2) == get(model, consistent=True)


def test_a_stale_query_shows_the_partition_before_its_last_request() -> None:
    model = made(chaos=Stale())
    put(model, "a")
    actions = [put_of("b"), put_of("c"), {"Delete": {"TableName": "t", "Key": key()}}]
    model.call("transact_write_items", {"TransactItems": actions})
    assert ["a"] == query(model)
    assert ["b", "c"] == query(model, consistent=True)


def test_a_consistent_read_is_never_stale() -> None:
    chaos = Stale()
    model = made(chaos=chaos)
    get(model, consistent=True)
    query(model, consistent=True)
    assert [] == chaos.asked
    get(model)
    assert ["dynamodb.stale"] == chaos.asked


def test_a_page_holds_the_items_that_it_is_given() -> None:
    model = made(page_items=2)
    for sk in "abc":
        put(model, sk)
    assert ["a", "b", "|", "c"] == query(model)


def test_each_applied_request_is_reported_once_with_all_its_changes() -> None:
    model, told = made(), list[Sequence[Change]]()
    model.on_write = told.append
    put(model, n=1)
    put(model, n=1)
    actions = [put_of("b"), put_of("a", table="other", n=2)]
    model.call("transact_write_items", {"TransactItems": actions})
    item = row(n=1)
    pk, size, bare = item["pk"]["S"], item_size(item), item_size(row("b"))
    assert [
        [Change("t", pk, "a", None, item, size)],
        [Change("t", pk, "a", item, item, size)],
        [
            Change("t", pk, "b", None, row("b"), bare),
            Change("other", pk, "a", None, row(n=2), size),
        ],
    ] == told


def test_a_change_has_the_larger_size_of_before_and_after() -> None:
    model, told = made(), list[Sequence[Change]]()
    put(model, n=1, text="long")
    model.on_write = told.append
    put(model)
    assert [item_size(row(n=1, text="long"))] == [change.size for change in told[0]]


def test_refused_requests_and_reads_are_not_reported() -> None:
    model, told = made(), list[Sequence[Change]]()
    model.on_write = told.append
    check = {"TableName": "t", "Key": key()} | expressed("", "attribute_not_exists(pk)")
    actions = {"TransactItems": [{"ConditionCheck": check}]}
    model.call("transact_write_items", actions)
    with pytest.raises(ClientError):
        model.call(
            "transact_write_items",
            {"TransactItems": [put_of("b"), put_of("a", "attribute_exists(pk)")]},
        )
    assert [] == told


def test_a_repeated_transaction_is_reported_once_and_applied_again_later() -> None:
    clock, told = Clock(), list[Sequence[Change]]()
    model = DynamoDB(clock, tables=["t"])
    model.on_write = told.append
    update = {"TableName": "t", "Key": key(), **expressed("ADD n :one", one=1)}
    request = {"TransactItems": [{"Update": update}], "ClientRequestToken": "token"}
    for clock.time in (0.0, 599.0, 600.0):
        model.call("transact_write_items", request)
    assert 2 == len(told)
    assert row(n=2) == get(model)


def test_a_reported_item_does_not_change_any_more() -> None:
    model, told = made(), list[Sequence[Change]]()
    model.on_write = told.append
    update = {"TableName": "t", "Key": key(), **expressed("ADD s :s", s={"NS": ["1"]})}
    model.call("update_item", update)
    values = {":s": {"NS": ["2"]}}
    model.call("update_item", update | {"ExpressionAttributeValues": values})
    model.call("get_item", {"TableName": "t", "Key": key()})["Item"].clear()
    assert [row(s={1}), row(s={1, 2})] == [changes[0].new for changes in told]
    assert row(s={1, 2}) == get(model)


@pytest.mark.parametrize(
    ("operation", "request_"),
    [
        (
            "batch_get_item",
            {"RequestItems": {"t": {"Keys": [key()], "ProjectionExpression": "n"}}},
        ),
        ("get_item", {"TableName": "t", "Key": key(), "ProjectionExpression": "n"}),
        ("update_item", {"UpdateExpression": "SET m.n = :n"}),
        ("update_item", {"UpdateExpression": "SET l[0] = :n"}),
        ("update_item", {"UpdateExpression": "SET n = (:n)"}),
        ("update_item", {"ConditionExpression": "attribute_type(n, :n)"}),
        ("update_item", {"ConditionExpression": "(n) = :n"}),
    ],
)
def test_what_is_not_modelled_says_so(operation: str, request_: Any) -> None:
    values = {"ExpressionAttributeValues": {":n": {"N": "1"}}}
    if operation == "update_item":
        request_ = {"TableName": "t", "Key": key(), **values, **request_}
    with pytest.raises(NotImplementedError):
        made().call(operation, request_)


def test_an_error_has_the_shape_that_botocore_gives_it() -> None:
    model = made()
    put(model, n=1)
    update = expressed("SET n = :two", "n = :two", two=2)
    with pytest.raises(ClientError) as refused:
        model.call(
            "update_item",
            {
                "TableName": "t",
                "Key": key(),
                "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
                **update,
            },
        )
    response: Any = refused.value.response
    assert "UpdateItem" == refused.value.operation_name
    assert "ConditionalCheckFailedException" == response["Error"]["Code"]
    assert 400 == response["ResponseMetadata"]["HTTPStatusCode"]
    assert row(n=1) == response["Item"]
