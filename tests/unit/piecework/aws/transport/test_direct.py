"""Reads without the SDK: when they are sound, what they send, and what they hand on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import aiobotocore.session
import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import ReadOnlyCredentials
from botocore.exceptions import EndpointConnectionError

from piecework.aws.endpoint import Endpoint, find_endpoint
from piecework.aws.transport.answer import Answer
from piecework.aws.transport.direct import (
    Access,
    Credentials,
    DirectReads,
    find_access,
)

pytestmark = pytest.mark.usefixtures("one_moment")

KEYS = {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "secret"}
REGION = {"AWS_REGION": "eu-central-1"}
LOCAL = {"AWS_ENDPOINT_URL": "http://127.0.0.1:4566"}
AWS = "https://dynamodb.eu-central-1.amazonaws.com"


@pytest.mark.parametrize(
    ("environ", "url"),
    [
        (KEYS | REGION, AWS),
        (KEYS | REGION | LOCAL, "http://127.0.0.1:4566"),
        (KEYS | LOCAL, "http://127.0.0.1:4566"),
        (
            KEYS | REGION | {"AWS_ENDPOINT_URL_DYNAMODB": "http://[::1]:1"},
            "http://[::1]:1",
        ),
        (KEYS | REGION | {"AWS_ENDPOINT_URL_S3": "http://127.0.0.1:1"}, None),
        (REGION, None),
        (REGION | {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE"}, None),
        (KEYS, None),
        (KEYS | {"AWS_REGION": "us-gov-west-1"}, None),
        (KEYS | {"AWS_REGION": "cn-north-1"}, None),
        (KEYS | REGION | {"AWS_ENDPOINT_URL": "https://127.0.0.1:1"}, None),
        (KEYS | REGION | {"AWS_ENDPOINT_URL": "http://10.0.0.1:1"}, None),
        (KEYS | REGION | {"AWS_PROFILE": "work"}, None),
        (KEYS | REGION | {"AWS_USE_FIPS_ENDPOINT": "true"}, None),
        (KEYS | REGION | {"AWS_CA_BUNDLE": "/own.pem"}, None),
        (
            KEYS | REGION | LOCAL | {"AWS_CA_BUNDLE": "/own.pem"},
            "http://127.0.0.1:4566",
        ),
        (KEYS | REGION | {"https_proxy": "http://proxy"}, None),
        (
            KEYS | REGION | LOCAL | {"http_proxy": "http://proxy"},
            "http://127.0.0.1:4566",
        ),
        (KEYS | REGION | {"AWS_CONFIG_FILE": __file__}, None),
    ],
)
def test_only_an_access_that_the_sdk_would_find_too_is_used(
    environ: dict[str, str], url: str | None, tmp_path: Path
) -> None:
    environ = {"AWS_CONFIG_FILE": str(tmp_path / "none")} | environ

    found = find_access(find_endpoint(environ, tmp_path), environ)

    assert url == (found and found.url)


@pytest.mark.parametrize("region", ["us-east-1", "eu-south-2", "mx-central-1"])
async def test_the_address_of_aws_is_the_sdks(region: str, tmp_path: Path) -> None:
    environ = KEYS | {"AWS_REGION": region, "AWS_CONFIG_FILE": str(tmp_path / "none")}
    session = aiobotocore.session.get_session()
    async with session.create_client("dynamodb", region_name=region) as client:
        theirs = client.meta.endpoint_url

    ours = find_access(Endpoint("", "aws", region), environ)

    assert ours is not None
    assert theirs == ours.url


class Wire:
    """Connections with one answer for each request; keeps what was sent."""

    def __init__(self, *answers: Answer | Exception) -> None:
        self.answers, self.sent = list(answers), list[bytes]()

    async def send(self, _route: Any, request: bytes) -> Answer:
        self.sent.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


class Sdk:
    """The client of the SDK, which says what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> Any:
        async def operation(**_: Any) -> str:
            self.asked.append(name)
            return "of the SDK"

        return operation


def reads(wire: Wire, sdk: Sdk) -> DirectReads:
    access = Access("http://127.0.0.1:1", "us-east-1", Credentials("AKID", "secret"))

    async def opened() -> Sdk:
        return sdk

    connections: Any = wire
    return DirectReads(access, connections, opened, lambda: 1_700_000_000.0)


def answer(body: bytes, status: int = 200) -> Answer:
    return Answer(status, {}, body, closes=False)


async def test_a_plain_success_needs_no_sdk() -> None:
    wire = Wire(answer(b'{"Item":{}}'), answer(b'{"Items":[]}'), answer(b"content"))
    sdk = Sdk()
    client = reads(wire, sdk)

    item = await client.get_item(TableName="t")
    page = await client.query(TableName="t")
    found = await client.get_object(Bucket="b", Key="k")

    assert ({}, []) == (item["Item"], page["Items"])
    async with found["Body"] as body:
        assert b"content" == await body.read()
    assert [] == sdk.asked


@pytest.mark.parametrize(
    "wrong",
    [
        answer(b'{"__type":"ProvisionedThroughputExceededException"}', 400),
        answer(b"oops", 500),
        answer(b'{"Item":{"a":{"B":"AA=="}}}'),
        EndpointConnectionError(endpoint_url="http://127.0.0.1:1"),
    ],
)
@pytest.mark.parametrize("name", ["get_item", "query"])
async def test_the_sdk_repeats_a_read_without_a_plain_success(
    name: str, wrong: Answer | Exception
) -> None:
    sdk = Sdk()

    assert "of the SDK" == await getattr(reads(Wire(wrong), sdk), name)(TableName="t")
    assert [name] == sdk.asked


async def test_the_sdk_sends_all_other_requests_and_reads_of_a_range() -> None:
    wire, sdk = Wire(answer(b"gone", 404)), Sdk()
    client = reads(wire, sdk)

    await client.update_item(TableName="t")
    await client.get_object(Bucket="b", Key="k", Range="bytes=0-1")
    await client.get_object(Bucket="b", Key="k")

    assert ["update_item", "get_object", "get_object"] == sdk.asked
    assert 1 == len(wire.sent)


async def test_an_object_is_requested_with_the_sdks_signature() -> None:
    wire = Wire(answer(b""))
    await reads(wire, Sdk()).get_object(Bucket="b", Key="tenants/t 1/jobs/j/é.json")
    head = dict(
        line.split(": ", 1) for line in wire.sent[0].decode().split("\r\n")[1:] if line
    )
    path = wire.sent[0].split(b" ")[1].decode()

    theirs = AWSRequest("GET", f"http://127.0.0.1:1{path}", data=b"")
    theirs.context["timestamp"] = head["X-Amz-Date"]
    signer = S3SigV4Auth(ReadOnlyCredentials("AKID", "secret", None), "s3", "us-east-1")
    theirs.headers["X-Amz-Date"] = head["X-Amz-Date"]
    theirs.headers["X-Amz-Content-SHA256"] = signer.payload(theirs)
    signed = signer.string_to_sign(theirs, signer.canonical_request(theirs))

    assert "/b/tenants/t%201/jobs/j/%C3%A9.json" == path
    assert head["Authorization"].endswith(signer.signature(signed, theirs))
