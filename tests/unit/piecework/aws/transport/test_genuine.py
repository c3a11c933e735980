"""What AWS did not send is sent for again, by both transports."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from zlib import crc32

import pytest

from piecework.aws.transport.genuine import MESSAGE, require_genuine
from piecework.errors.classify import classify
from tests.unit.piecework.aws.transport.both import Wire, both, client, foreign

pytestmark = pytest.mark.usefixtures("one_moment")

BODY = json.dumps({"Attributes": {"a": {"S": "b"}}}).encode()
CRC = {"x_amz_crc32": str(crc32(BODY))}
ID = {"x_amzn_requestid": "an id"}
UPDATE = {"TableName": "t", "Key": {"pk": {"S": "a"}}, "UpdateExpression": "SET a = :a"}
REFUSAL = '{"__type": "c#ConditionalCheckFailedException", "message": "no"}'
GOOD = foreign(BODY, **ID, **CRC)
PORTAL = "<html>Sign in</html>"
#: What came, and whether it is an answer of DynamoDB.
ANSWERS: Mapping[str, tuple[Any, bool]] = {
    "a success": (GOOD, True),
    "a success without an id": (foreign(BODY, **CRC), False),
    "a success without a checksum": (foreign(BODY, **ID), False),
    "an empty success": (foreign("{}"), False),
    "a page": (foreign(PORTAL), False),
    "a page that forbids": (foreign(PORTAL, 403), False),
    "a page that is not there": (foreign(PORTAL, 404), False),
    "a redirect": (foreign("", 302, location="http://portal/"), False),
    "a refusal": (foreign(REFUSAL, 400, **ID), True),
    "a refusal without an id": (foreign(REFUSAL, 400), False),
}


@pytest.mark.attack("answers")
@pytest.mark.parametrize("case", ANSWERS)
async def test_what_aws_did_not_send_is_sent_for_again(case: str) -> None:
    came, genuine = ANSWERS[case]
    async with both("dynamodb", None) as pair:
        require_genuine(pair.sdk)
        require_genuine(pair.alike)
        sdk, thin = await pair.ask("update_item", [came, GOOD], **UPDATE)

    assert (sdk.sent, 1 if genuine else 2) == (thin.sent, len(thin.sent))
    said = "ConditionalCheckFailed" if case == "a refusal" else "'a': {'S': 'b'}"
    assert said in repr(sdk.outcome)
    assert said in repr(thin.outcome)


@pytest.mark.parametrize("service", ["dynamodb", "sqs", "s3", "sts"])
async def test_the_error_says_that_it_was_not_aws(service: str) -> None:
    requests: dict[str, tuple[str, dict[str, Any]]] = {
        "dynamodb": ("update_item", UPDATE),
        "sqs": ("receive_message", {"QueueUrl": "https://sqs.amazonaws.com/1/q"}),
        "s3": ("get_object", {"Bucket": "b", "Key": "k"}),
        "sts": ("get_caller_identity", {}),
    }
    name, request = requests[service]
    wire = Wire([foreign(PORTAL)])
    async with client(service, None) as sdk:
        require_genuine(sdk)
        sdk.meta.events.register("before-send", wire.stand_in)
        with pytest.raises(sdk.exceptions.ClientError) as raised:
            await getattr(sdk, name)(**request)
    found = classify(raised.value)
    assert ("aws.service.unavailable", 4) == (found.code, len(wire.sent))
    assert MESSAGE in found.message


async def test_an_endpoint_of_ones_own_need_not_answer_as_aws_does() -> None:
    async with both("dynamodb") as pair:
        require_genuine(pair.sdk)
        require_genuine(pair.alike)
        sdk, thin = await pair.ask("update_item", [foreign(BODY)], **UPDATE)
    assert (1, 1) == (len(sdk.sent), len(thin.sent))
