from __future__ import annotations

import json
from typing import Any

import pytest

from bench import meter, proxy

ITEM = {"pk": {"S": "x" * 5_000}}


@pytest.fixture(autouse=True)
def _nothing_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy, "counts", {})


async def ask(
    body: bytes, answer: object, path: str = "/", method: str = "POST", **headers: str
) -> dict[str, Any]:
    """Send a request through the door to an application that gives this answer."""
    seen: dict[str, Any] = {}

    async def inner(scope: Any, receive: Any, send: Any) -> None:
        seen["body"] = (await receive())["body"]
        seen["size"] = dict(scope["headers"]).get(b"content-length")
        await send({"type": "http.response.start", "status": 200, "headers": []})
        text = json.dumps(answer).encode()
        await send({"type": "http.response.body", "body": text})

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body}

    async def send(message: dict[str, Any]) -> None:
        seen.setdefault("sent", []).append(message)

    named = {"content-length": str(len(body)), **headers}
    lines = [(n.replace("_", "-").encode(), v.encode()) for n, v in named.items()]
    scope = {"type": "http", "path": path, "method": method, "headers": lines}
    await proxy.count_requests(inner)(scope, receive, send)
    return seen


async def test_a_write_is_asked_what_it_consumed() -> None:
    send_counts = {"ConsumedCapacity": {"CapacityUnits": 5.0}}
    target = "DynamoDB_20120810.PutItem"
    seen = await ask(b'{"Item":{}}', send_counts, x_amz_target=target)

    assert b'{"Item":{},"ReturnConsumedCapacity":"TOTAL"}' == seen["body"]
    assert str(len(seen["body"])).encode() == seen["size"]
    assert [1, 1, 5.0, 11] == proxy.counts["dynamodb.PutItem"][:4]


async def test_a_read_is_counted_by_what_it_read() -> None:
    target = "DynamoDB_20120810.GetItem"
    await ask(b'{"ConsistentRead":true}', {"Item": ITEM}, x_amz_target=target)
    await ask(b"{}", {"Item": ITEM}, x_amz_target=target)

    assert 2 + 1 == proxy.counts["dynamodb.GetItem"][2]


async def test_a_refused_write_is_billed_by_what_stood_there() -> None:
    refused = {"__type": "ConditionalCheckFailedException", "Item": ITEM}
    await ask(b"{}", refused, x_amz_target="DynamoDB_20120810.UpdateItem")

    assert 5 == proxy.counts["dynamodb.UpdateItem"][2]


async def test_each_element_of_a_refused_transaction_is_billed_twice() -> None:
    body = b'{"TransactItems":[{},{}]}'
    refused = {"__type": "TransactionCanceledException"}
    await ask(body, refused, x_amz_target="DynamoDB_20120810.TransactWriteItems")

    assert 4 == proxy.counts["dynamodb.TransactWriteItems"][2]


async def test_an_invalid_request_costs_nothing() -> None:
    refused = {"__type": "ValidationException"}
    await ask(b"{}", refused, x_amz_target="DynamoDB_20120810.UpdateItem")

    assert 0 == proxy.counts["dynamodb.UpdateItem"][2]


async def test_a_large_message_is_billed_as_several_requests() -> None:
    await ask(b"x" * 130_000, {}, x_amz_target="AmazonSQS.SendMessage")

    assert [1, 2, 0] == proxy.counts["sqs.SendMessage"][:3]


async def test_the_query_protocol_is_understood() -> None:
    signed = "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/sqs/aws4_request"
    await ask(b"Action=DeleteMessage&Version=1", {}, authorization=signed)

    assert ["sqs.DeleteMessage"] == list(proxy.counts)


@pytest.mark.parametrize(
    ("method", "path", "name"),
    [("PUT", "/b/k", "Put"), ("GET", "/b/k/l", "Get"), ("GET", "/b", "List")],
)
async def test_objects_are_counted_by_their_method(
    method: str, path: str, name: str
) -> None:
    signed = "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/s3/aws4_request"
    await ask(b"", {}, path, method, authorization=signed)

    assert [f"s3.{name}"] == list(proxy.counts)


async def test_an_observer_is_not_counted() -> None:
    target = "DynamoDB_20120810.GetItem"
    agent = f"{meter.OBSERVER_AGENT.decode()} Resource"  # as the SDK puts it
    await ask(b"{}", {}, user_agent=agent, x_amz_target=target)

    assert {} == proxy.counts


async def test_the_counts_can_be_asked_for() -> None:
    await ask(b"{}", {}, x_amz_target="AmazonSQS.DeleteMessage")
    seen = await ask(b"", {}, "/_bench", "GET")

    assert {"sqs.DeleteMessage": [1, 1, 0, 2, 2]} == json.loads(seen["sent"][1]["body"])
