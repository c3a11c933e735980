from __future__ import annotations

from typing import Any

import pytest

from piecework.cost.units import (
    consumed,
    item_size,
    read_units,
    sqs_requests,
    write_units,
)

KB = 1024
KEY = {"pk": {"S": "p"}, "sk": {"S": "s"}}  # 6 bytes
THROTTLED = {"Error": {"Code": "ThrottlingException"}}


@pytest.mark.parametrize(
    ("size", "writes", "reads"),
    [
        (0, 1, 1),
        (1, 1, 1),
        (KB, 1, 1),
        (KB + 1, 2, 1),
        (3 * KB, 3, 1),
        (4 * KB, 4, 1),
        (4 * KB + 1, 5, 2),
        (8 * KB, 8, 2),
        (400 * KB, 400, 100),
    ],
)
def test_sizes_are_rounded_up_to_units(size: int, writes: int, reads: int) -> None:
    assert (writes, reads) == (write_units(size), read_units(size))


@pytest.mark.parametrize(
    ("size", "requests"),
    [(0, 1), (64 * KB, 1), (64 * KB + 1, 2), (256 * KB, 4), (1024 * KB, 16)],
)
def test_each_64_kb_of_a_payload_is_a_request(size: int, requests: int) -> None:
    assert requests == sqs_requests(size)


@pytest.mark.parametrize(
    ("value", "size"),
    [
        ({"S": "four"}, 4),
        ({"S": "ü"}, 2),
        ({"N": "7"}, 2),
        ({"N": "-1234"}, 3),
        ({"N": "12345"}, 4),
        ({"N": "1000"}, 2),  # zeros at the ends do not count
        ({"BOOL": True}, 1),
        ({"NULL": True}, 1),
        ({"B": b"abc"}, 3),
        ({"BS": [b"abc", b"d"]}, 4),
        ({"SS": ["ab", "c"]}, 3),
        ({"NS": ["1", "22", "333"]}, 2 + 2 + 3),
        ({"L": []}, 3),
        ({"L": [{"S": "ab"}, {"S": "c"}]}, 3 + 2 + 3),
        ({"M": {}}, 3),
        ({"M": {"key": {"S": "value"}}}, 3 + 1 + 3 + 5),
    ],
)
def test_an_attribute_has_its_name_its_value_and_its_nesting(
    value: dict[str, Any], size: int
) -> None:
    assert len("name") + size == item_size({"name": value})


def text(size: int) -> dict[str, Any]:
    """Return an item of so many bytes."""
    return {**KEY, "v": {"S": "x" * (size - 7)}}


PUT = {"Item": text(3 * KB)}
UPDATE = {"Key": KEY, "ReturnValues": "ALL_NEW"}
CHECK = {"ConditionCheck": {"Key": KEY}}
TRANSACTION = {"TransactItems": [CHECK, {"Put": PUT}]}
REFUSED = {"Error": {"Code": "ConditionalCheckFailedException"}}
CANCELLED = {
    "Error": {"Code": "TransactionCanceledException"},
    "CancellationReasons": [{"Item": text(5 * KB)}, {"Code": "None"}],
}
QUERY = {"ConsistentRead": True}


@pytest.mark.parametrize(
    ("operation", "params", "answer", "units"),
    [
        ("PutItem", PUT, {}, 3),
        ("UpdateItem", UPDATE, {"Attributes": text(2 * KB + 1)}, 3),
        ("UpdateItem", {"Key": KEY, "ReturnValues": "NONE"}, {}, 1),
        # What an emulator says counts where it is more than is known.
        ("UpdateItem", {"Key": KEY}, {"ConsumedCapacity": {"CapacityUnits": 9.0}}, 9),
        ("PutItem", PUT, {"ConsumedCapacity": {"CapacityUnits": 1.0}}, 3),
        ("GetItem", {"ConsistentRead": True}, {"Item": text(9 * KB)}, 3),
        ("GetItem", {"ConsistentRead": False}, {"Item": text(9 * KB)}, 2),
        ("GetItem", {"ConsistentRead": True}, {}, 1),
        (
            "BatchGetItem",
            {"RequestItems": {"t": {"Keys": [1, 2, 3, 4], "ConsistentRead": True}}},
            {
                "Responses": {"t": [text(9 * KB), text(KB)]},
                "UnprocessedKeys": {"t": {"Keys": [4]}},
            },
            3 + 1 + 1,
        ),
        ("Query", QUERY, {"Items": [text(KB)] * 5}, 2),  # the sum is rounded
        ("Query", QUERY, {"Items": []}, 1),
        ("Query", {**QUERY, "Select": "COUNT"}, {"ScannedCount": 256}, 25),
        ("TransactWriteItems", TRANSACTION, {}, 2 * (1 + 3)),
        # Refusals are billed by what stands there, and by what was to be written.
        ("UpdateItem", UPDATE, {**REFUSED, "Item": text(4 * KB)}, 4),
        ("PutItem", PUT, {**REFUSED, "Item": text(KB)}, 3),
        ("UpdateItem", UPDATE, REFUSED, 1),
        ("TransactWriteItems", TRANSACTION, CANCELLED, 2 * (5 + 3)),
        # What was not carried out is not billed.
        ("PutItem", PUT, THROTTLED, 0),
        ("Query", QUERY, {"Error": {"Code": "InternalServerError"}}, 0),
    ],
)
def test_a_request_consumes_what_the_rules_say(
    operation: str, params: dict[str, Any], answer: dict[str, Any], units: float
) -> None:
    assert units == consumed(operation, params, answer, trusted=False)


@pytest.mark.parametrize(
    "told",
    [{"CapacityUnits": 7.5}, [{"CapacityUnits": 2.5}, {"CapacityUnits": 5.0}]],
)
@pytest.mark.parametrize("operation", ["Query", "PutItem", "TransactWriteItems"])
def test_what_aws_reports_counts_whatever_the_rules_say(
    operation: str, told: Any
) -> None:
    params = {**PUT, **QUERY, **TRANSACTION}
    answer = {"ConsumedCapacity": told}

    assert 7.5 == consumed(operation, params, answer, trusted=True)


def test_aws_does_not_report_a_refusal_so_that_the_rules_say_it() -> None:
    answer = {**REFUSED, "Item": text(4 * KB)}

    assert 4 == consumed("UpdateItem", UPDATE, answer, trusted=True)
