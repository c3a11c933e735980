"""What is sent is what the SDK sends: to the byte, whatever is asked."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from piecework.aws.transport.request import JSON_OPERATIONS
from tests.unit.piecework.aws.transport.both import answer, both

pytestmark = pytest.mark.usefixtures("one_moment")

LETTERS = "aZ09 /+=~*%&?#\"'\\\n\t\x00äß€漢🦊"
OF_SQS = {name for name in JSON_OPERATIONS if "message" in name}


def text(rng: Random) -> str:
    return "".join(rng.choices(LETTERS, k=rng.randrange(1, 20)))


def value(rng: Random, depth: int = 0) -> dict[str, Any]:
    kinds: list[Any] = [
        lambda: {"S": text(rng)},
        lambda: {"N": str(rng.randrange(-(10**20), 10**20))},
        lambda: {"BOOL": rng.random() < 0.5},
        lambda: {"NULL": True},
        lambda: {"NS": [str(rng.randrange(99)) for _ in range(3)]},
        lambda: {"L": [value(rng, depth + 1) for _ in range(rng.randrange(3))]},
        lambda: {"M": item(rng, depth + 1)},
    ]
    return rng.choice(kinds[: 5 if depth > 2 else 7])()


def item(rng: Random, depth: int = 0) -> dict[str, Any]:
    return {text(rng): value(rng, depth) for _ in range(rng.randrange(4))}


def write(rng: Random, key: str) -> dict[str, Any]:
    return {
        "TableName": "piecework-local-checkpoints",
        key: item(rng),
        "ConditionExpression": text(rng),
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        "ExpressionAttributeNames": {f"#{text(rng)}": text(rng)},
        "ExpressionAttributeValues": item(rng),
    }


def entries(rng: Random, **more: Any) -> dict[str, Any]:
    batch = [{"Id": str(n), **more} for n in range(rng.randrange(1, 11))]
    return {"QueueUrl": f"http://queue/{text(rng)}", "Entries": batch}


def params(rng: Random, name: str) -> dict[str, Any]:
    """Return parameters as our own requests have them, filled by chance."""
    table = {"TableName": "piecework-local-checkpoints"}
    named: dict[str, Any] = {
        "delete_item": lambda: write(rng, "Key"),
        "update_item": lambda: write(rng, "Key") | {"UpdateExpression": text(rng)},
        "put_item": lambda: write(rng, "Item"),
        "get_item": lambda: {**table, "Key": item(rng), "ConsistentRead": True},
        "batch_get_item": lambda: {
            "RequestItems": {"t": {"Keys": [item(rng)], "ConsistentRead": True}}
        },
        "query": lambda: {**table, "Limit": 7, "ExclusiveStartKey": item(rng)},
        "transact_write_items": lambda: {
            "TransactItems": [{"Update": write(rng, "Key")} for _ in range(3)],
            "ClientRequestToken": text(rng),
        },
        "batch_execute_statement": lambda: {
            "Statements": [
                {"Statement": text(rng), "Parameters": [*item(rng).values()]}
                for _ in range(3)
            ]
        },
        "batch_write_item": lambda: {
            "RequestItems": {"t": [{"PutRequest": {"Item": item(rng)}}]}
        },
        "receive_message": lambda: {
            "QueueUrl": text(rng),
            "WaitTimeSeconds": rng.randrange(20),
            "MessageSystemAttributeNames": ["ApproximateReceiveCount"],
        },
        "send_message_batch": lambda: entries(rng, MessageBody=text(rng)),
        "delete_message_batch": lambda: entries(rng, ReceiptHandle=text(rng)),
        "change_message_visibility_batch": lambda: entries(
            rng, ReceiptHandle=text(rng), VisibilityTimeout=90
        ),
    }
    return named[name]()  # type: ignore[no-any-return]


@pytest.mark.parametrize("service", ["dynamodb", "sqs"])
@pytest.mark.parametrize("token", [None, "a/token+of==a session"])
@pytest.mark.parametrize("endpoint", ["http://127.0.0.1:4566", None])
async def test_a_request_is_the_sdks_to_the_byte(
    service: str, token: str | None, endpoint: str | None
) -> None:
    rng = Random(f"{service}{token}{endpoint}")
    names = [name for name in JSON_OPERATIONS if (name in OF_SQS) == (service == "sqs")]
    async with both(service, endpoint, token) as pair:
        for name in names * 6:
            sdk, thin = await pair.ask(name, [answer()], **params(rng, name))

            assert sdk.sent == thin.sent
            assert sdk == thin


@pytest.mark.parametrize(
    ("endpoint", "more"),
    [
        ("https://proxy.example:8443/base/path/", {}),
        ("http://[::1]:4566", {}),
        ("https://example.com:443", {}),
        (None, {"use_dualstack_endpoint": True}),
        (None, {"use_fips_endpoint": True}),
    ],
)
async def test_it_goes_where_the_sdk_would_send_it(
    endpoint: str | None, more: dict[str, Any]
) -> None:
    async with both("dynamodb", endpoint, **more) as pair:
        asked = params(Random(1), "update_item")
        sdk, thin = await pair.ask("update_item", [answer()], **asked)

        assert sdk.sent == thin.sent


async def test_a_token_for_the_write_is_made_up_where_none_was_given() -> None:
    async with both("dynamodb") as pair:
        _, thin = await pair.ask("transact_write_items", [answer()], TransactItems=[])

        assert b'"ClientRequestToken": "' in thin.sent[0].body
