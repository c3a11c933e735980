"""What an answer says and raises is what the SDK says and raises of it."""

from __future__ import annotations

import json
from random import Random
from typing import Any
from zlib import crc32

import pytest
from botocore.exceptions import (
    ConnectionClosedError,
    EndpointConnectionError,
    HTTPClientError,
    ReadTimeoutError,
)

from tests.unit.piecework.aws.transport.both import answer, both

pytestmark = pytest.mark.usefixtures("one_moment")

URL = "http://127.0.0.1:4566/"
KEY = {"pk": {"S": "T#t#J#j"}, "sk": {"S": "CHUNK#1"}}
UPDATE = {"TableName": "t", "Key": KEY, "UpdateExpression": "SET a = :a"}
RECEIVE = {"QueueUrl": "http://queue/work"}
DATED = {"date": "Tue, 22 Sep 2026 10:00:00 GMT", "x_amzn_requestid": "an id"}
REFUSED = {
    "__type": "com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException",
    "message": "The conditional request failed",
    "Item": {**KEY, "n": {"N": "7"}, "no": {"NULL": True}, "raw": {"B": "YWJj"}},
}
CANCELLED = {
    "__type": "com.amazonaws.dynamodb.v20120810#TransactionCanceledException",
    "Message": "Transaction cancelled [None, ConditionalCheckFailed]",
    "CancellationReasons": [
        {"Code": "None"},
        {"Code": "ConditionalCheckFailed", "Message": "failed", "Item": KEY},
        {"Code": "ThrottlingError", "Message": None},
    ],
}
THROTTLED = {"__type": "c#ProvisionedThroughputExceededException", "message": "slow"}
ITEMS = {"L": [{"M": {"n": {"N": "1"}}}, {"BOOL": False}, {"NULL": True}]}


def failed(said: Any, status: int = 400, **headers: str) -> Any:
    return answer(json.dumps(said), status, **DATED, **headers)


def checked(said: Any, wrong: int = 0) -> Any:
    body = json.dumps(said).encode()
    return answer(body, x_amz_crc32=str(crc32(body) + wrong), **DATED)


GOOD = checked({"Attributes": {"a": {"S": "b"}, "deep": {"M": {"l": ITEMS}}}})
ANSWERS = {
    "a success": [GOOD],
    "nothing": [answer("{}", **DATED)],
    "an empty body": [answer("", **DATED)],
    "no JSON": [answer("<html>", **DATED)],
    "what is null": [checked({"Attributes": None, "ConsumedCapacity": None})],
    "what is binary": [checked({"Attributes": {"b": {"B": "YWJj"}}})],
    "binary ones": [checked({"Attributes": {"b": {"BS": ["YWJj", "YQ=="]}}})],
    "a refusal": [failed(REFUSED)],
    "a cancelled transaction": [failed(CANCELLED)],
    "an unknown error": [failed({"__type": "Strange:http://a/b", "Message": "?"})],
    "an error without a body": [answer("", 404, **DATED)],
    "a redirect": [answer("", 301, **DATED)],
    "another success": [answer("{}", 201, **DATED)],
    "a throttle, then a success": [failed(THROTTLED), GOOD],
    "throttles to the end": [failed(THROTTLED)],
    "a 500, then a success": [failed({"__type": "InternalServerError"}, 500), GOOD],
    "a 503 of HTML to the end": [answer("<html>no</html>", 503)],
    "an error that is retried by its model": [
        failed({"__type": "c#ReplicatedWriteConflictException"}),
        GOOD,
    ],
    "a wrong checksum, then a success": [checked({"Attributes": {}}, 1), GOOD],
    "a lost connection, then a success": [
        ConnectionClosedError(endpoint_url=URL),
        EndpointConnectionError(endpoint_url=URL),
        GOOD,
    ],
    "a malformed answer, then a success": [HTTPClientError(error="no answer"), GOOD],
    "malformed answers to the end": [HTTPClientError(error="no answer")],
    "no answer to the end": [ReadTimeoutError(endpoint_url=URL)],
    "the last try succeeds": [failed(THROTTLED)] * 3 + [GOOD],
    "bad and worse": [failed(THROTTLED), ReadTimeoutError(endpoint_url=URL), GOOD],
}


@pytest.mark.parametrize("case", ANSWERS)
async def test_an_answer_means_what_it_means_to_the_sdk(case: str) -> None:
    async with both("dynamodb") as pair:
        sdk, thin = await pair.ask("update_item", ANSWERS[case], **UPDATE)

        assert sdk.outcome == thin.outcome
        assert sdk.sent == thin.sent
        assert sdk.heard == thin.heard


@pytest.mark.attack("answers")
async def test_a_damaged_body_is_never_accepted() -> None:
    """The SDK tries again as well, and accepts the damaged body in the end."""
    async with both("dynamodb") as pair:
        damaged = [checked({"Attributes": {}}, 1)]
        sdk, thin = await pair.ask("update_item", damaged, **UPDATE)

        assert len(thin.sent) == len(sdk.sent) > 1
        assert "does not match its checksum" in repr(thin.outcome)
        assert "checksum" not in repr(sdk.outcome)


SQS_ANSWERS = {
    "messages": [answer('{"Messages": [{"Body": "{}", "Attributes": {"a": "1"}}]}')],
    "no messages": [answer("{}")],
    "a binary attribute": [
        answer('{"Messages": [{"MessageAttributes": {"a": {"BinaryValue": "YWJj"}}}]}')
    ],
    "an error by its old name": [
        failed(
            {"__type": "com.amazonaws.sqs#QueueDoesNotExist", "message": "gone"},
            x_amzn_query_error="AWS.SimpleQueueService.NonExistentQueue;Sender",
        )
    ],
    "an error": [failed({"__type": "com.amazonaws.sqs#OverLimit"}, 403)],
    "a throttle": [failed({"__type": "com.amazonaws.sqs#RequestThrottled"}), GOOD],
}


@pytest.mark.parametrize("case", SQS_ANSWERS)
async def test_an_answer_of_sqs_means_what_it_means_to_the_sdk(case: str) -> None:
    async with both("sqs") as pair:
        sdk, thin = await pair.ask("receive_message", SQS_ANSWERS[case], **RECEIVE)

        assert sdk == thin


async def test_a_client_that_fails_too_often_stops_trying_again_as_the_sdk_does() -> (
    None
):
    rng = Random(5)
    async with both("dynamodb") as pair:
        tries = []
        for _ in range(60):
            case = rng.choice(["no answer to the end", "throttles to the end"])
            sdk, thin = await pair.ask("update_item", ANSWERS[case], **UPDATE)
            assert sdk == thin
            tries.append(len(thin.sent))

        assert (4, 1) == (tries[0], tries[-1])

        for _ in range(12):
            sdk, thin = await pair.ask("update_item", [GOOD], **UPDATE)
        again = [failed(THROTTLED), GOOD]
        sdk, thin = await pair.ask("update_item", again, **UPDATE)

        assert sdk == thin
        assert 2 == len(thin.sent)


async def test_the_waits_between_two_tries_are_the_sdks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "botocore.retries.standard.ExponentialBackoff.delay_amount",
        lambda _, context: 2.0 ** (context.attempt_number - 40),
    )
    async with both("dynamodb") as pair:
        _, thin = await pair.ask("update_item", [failed(THROTTLED)], **UPDATE)

        assert [2.0**-39, 2.0**-38, 2.0**-37] == thin.waits
