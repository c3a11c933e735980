"""Requests without the SDK: when they are sound, what they send and hand on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any

import aiobotocore.session
import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import ReadOnlyCredentials
from botocore.exceptions import ClientError, EndpointConnectionError

from piecework.aws.endpoint import Endpoint, find_endpoint
from piecework.aws.transport.access import Access, Credentials, find_access
from piecework.aws.transport.answer import Answer
from piecework.aws.transport.direct import (
    OBJECT_LIMIT,
    READ_LIMIT,
    DirectClient,
    Listeners,
)
from piecework_orchestrator.submit.intake.json_lines import object_blocks

pytestmark = pytest.mark.usefixtures("one_moment")


def no_files(folder: Path) -> dict[str, str]:
    """Return the variables of an SDK that finds no file."""
    names = ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE")
    return dict.fromkeys(names, str(folder / "none"))


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
    environ = no_files(tmp_path) | environ

    found = find_access(find_endpoint(environ, tmp_path), environ)

    assert url == (found and found.url)


PLAIN = "[default]\nregion = eu-west-1\noutput=json\n[profile x]\nrole_arn = r\n"
STORED = "[default]\naws_access_key_id=AKIDEXAMPLE\naws_secret_access_key=secret\n"


@pytest.mark.parametrize(
    ("config", "stored", "environ", "region"),
    [
        ("", "", KEYS | REGION, "eu-central-1"),
        (PLAIN, "", KEYS, "eu-west-1"),
        (PLAIN, "", KEYS | REGION, "eu-central-1"),
        (PLAIN, STORED, {}, "eu-west-1"),
        (PLAIN, STORED, REGION, "eu-central-1"),
        (PLAIN, STORED, {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE"}, None),
        (PLAIN, STORED + "endpoint_url=http://10.0.0.1\n", {}, None),
        (PLAIN, "", {}, None),
        ("[default]\nrole_arn = r\n", STORED, KEYS | REGION, None),
        ("[default]\nendpoint_url = http://e\n", "", KEYS | REGION, None),
        ("[default]\nca_bundle = b\n", "", KEYS | REGION, None),
        ("[default]\nsso_session = s\n", "", KEYS | REGION, None),
        ("[default]\ns3 =\n  addressing_style = path\n", "", KEYS | REGION, None),
        ("[profile default]\nregion = eu-west-1\n", "", KEYS | REGION, None),
        ("no section", "", KEYS | REGION, None),
    ],
)
def test_a_file_of_the_sdk_that_changes_no_request_is_no_hindrance(
    config: str,
    stored: str,
    environ: dict[str, str],
    region: str | None,
    tmp_path: Path,
) -> None:
    files = {"AWS_CONFIG_FILE": config, "AWS_SHARED_CREDENTIALS_FILE": stored}
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
        environ = environ | {name: str(tmp_path / name)}

    found = find_access(find_endpoint(environ, tmp_path), environ)

    assert region == (found and found.region)
    assert found is None or found.credentials == Credentials("AKIDEXAMPLE", "secret")


@pytest.mark.parametrize("region", ["us-east-1", "eu-south-2", "mx-central-1"])
@pytest.mark.parametrize("service", ["dynamodb", "sqs", "sts"])
async def test_the_address_of_aws_is_the_sdks(
    service: Any, region: str, tmp_path: Path
) -> None:
    environ = KEYS | {"AWS_REGION": region} | no_files(tmp_path)
    session = aiobotocore.session.get_session()
    async with session.create_client(service, region_name=region) as client:
        theirs = client.meta.endpoint_url

    ours = find_access(Endpoint("", "aws", region), environ, service)

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


class Pages:
    """Two pages of the SDK."""

    async def paginate(self, **request: Any) -> AsyncIterator[Any]:
        for number in range(2):
            yield {"number": number, **request}


class Sdk:
    """The client of the SDK, which says what it was asked."""

    def get_paginator(self, name: str) -> Pages:
        self.asked.append(name)
        return Pages()

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> Any:
        async def operation(**_: Any) -> str:
            self.asked.append(name)
            return "of the SDK"

        return operation


HERE = "http://127.0.0.1:1"
OF_SDK = "of the SDK"


def client_of(
    wire: Wire,
    sdk: Sdk,
    service: str = "dynamodb",
    url: str = HERE,
    listeners: Listeners = Listeners(),  # noqa: B008 -- it cannot be changed
) -> DirectClient:
    access = Access(url, "us-east-1", Credentials("AKID", "secret"))

    async def opened() -> Sdk:
        return sdk

    connections: Any = wire
    return DirectClient(
        access, service, connections, opened, listeners, lambda: 1_700_000_000.0
    )


def answer(body: bytes, status: int = 200, **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(status, named, body, closes=False)


async def test_a_plain_success_needs_no_sdk() -> None:
    sdk = Sdk()
    tables = client_of(Wire(answer(b'{"Item":{}}'), answer(b"{}")), sdk)
    queues = client_of(Wire(answer(b'{"QueueUrl":"u"}')), sdk, "sqs")

    assert {} == (await tables.get_item(TableName="t"))["Item"]
    assert "Error" not in await tables.update_item(TableName="t")
    assert "u" == (await queues.get_queue_url(QueueName="q"))["QueueUrl"]
    assert [] == sdk.asked


async def test_a_success_with_any_value_is_read_and_never_sent_again() -> None:
    body = (
        b'{"Attributes":{"a":{"B":"AQI="},"B":{"S":"t"},"s":{"BS":["AQ=="]}},"x":null}'
    )
    sdk = Sdk()
    client = client_of(Wire(answer(body)), sdk)

    reply = await client.update_item(TableName="t")

    values = {"a": {"B": b"\x01\x02"}, "B": {"S": "t"}, "s": {"BS": [b"\x01"]}}
    assert {"Attributes": values} == reply
    assert [] == sdk.asked


@pytest.mark.parametrize(
    "wrong",
    [
        answer(b'{"__type":"ProvisionedThroughputExceededException"}', 400),
        answer(b"oops", 500),
        answer(b"{}", 200, x_amz_crc32="1"),
        EndpointConnectionError(endpoint_url=HERE),
    ],
)
@pytest.mark.parametrize("name", ["get_item", "query", "update_item"])
async def test_the_sdk_repeats_a_request_without_a_success(
    name: str, wrong: Answer | Exception
) -> None:
    sdk = Sdk()

    assert OF_SDK == await getattr(client_of(Wire(wrong), sdk), name)(TableName="t")
    assert [name] == sdk.asked


async def test_a_refused_condition_is_raised_as_the_sdk_raises_it() -> None:
    refused = (
        b'{"__type":"com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException",'
        b'"message":"no","Item":{"a":{"B":"AQ=="}}}'
    )
    sdk, seen = Sdk(), list[Any]()
    told = Listeners(answered=lambda **fields: seen.append(fields["parsed_response"]))
    client = client_of(Wire(answer(refused, 400)), sdk, listeners=told)

    with pytest.raises(ClientError) as caught:
        await client.put_item(TableName="t")

    response: Any = caught.value.response
    assert "ConditionalCheckFailedException" == response["Error"]["Code"]
    assert {"a": {"B": b"\x01"}} == response["Item"]
    assert [response] == seen
    assert [] == sdk.asked


async def test_the_sdk_sends_all_other_requests() -> None:
    sdk = Sdk()
    tables = client_of(Wire(), sdk)
    bucket = client_of(Wire(*[answer(b"gone", 404)] * 2, answer(b"no", 403)), sdk, "s3")
    large = b"x" * (OBJECT_LIMIT + 1)

    await tables.describe_table(TableName="t")
    await bucket.get_object(Bucket="b", Key="k", Range="bytes=0-1")
    await bucket.get_object(Bucket="b", Key="k", VersionId="1")
    await bucket.get_object(Bucket="b", Key="k")
    await bucket.put_object(Bucket="b", Key="k", Body=large, ContentType="t")
    await bucket.put_object(Bucket="b", Key="k", Body=b"", ContentType="t")

    reads, writes = ["get_object"] * 3, ["put_object"] * 2
    assert ["describe_table", *reads, *writes] == sdk.asked


async def test_the_sdk_turns_the_pages_and_the_region_is_that_of_the_access() -> None:
    sdk = Sdk()
    client = client_of(Wire(), sdk, "s3")

    pages = client.get_paginator("list_objects_v2").paginate(Bucket="b")

    assert [0, 1] == [page["number"] async for page in pages]
    assert (["list_objects_v2"], "us-east-1") == (sdk.asked, client.meta.region_name)


async def test_only_a_whole_object_is_read_into_memory() -> None:
    most = b"x" * READ_LIMIT
    part = answer(most, 206, content_range=f"bytes 0-{READ_LIMIT - 1}/{READ_LIMIT + 1}")
    whole = answer(b"all", 206, content_range="bytes 0-2/3")
    sdk = Sdk()
    client = client_of(Wire(part, whole), sdk, "s3")

    assert OF_SDK == await client.get_object(Bucket="b", Key="k")
    found = await client.get_object(Bucket="b", Key="k")

    async with found["Body"] as body:
        assert (b"al", b"l") == (await body.read(2), await body.read())
    assert ["get_object"] == sdk.asked


async def test_a_submit_reads_its_input_from_s3_in_blocks() -> None:
    wire = Wire(answer(b'{"n": 1}\n{"n": 2}\n', 206, content_range="bytes 0-17/18"))
    client = client_of(wire, Sdk(), "s3")
    blocks = object_blocks("s3://inbox/rows.jsonl", client)

    assert b'{"n": 1}\n{"n": 2}\n' == b"".join([block async for block in blocks])


async def test_a_range_of_an_object_needs_no_sdk() -> None:
    wire, sdk = Wire(answer(b"part", 206, content_range="bytes 4-7/99")), Sdk()

    found = await client_of(wire, sdk, "s3").get_object(
        Bucket="b", Key="k", Range="bytes=4-7"
    )

    assert b"part" == await found["Body"].read()
    assert b"Range: bytes=4-7\r\n" in wire.sent[0]
    assert [] == sdk.asked


async def test_a_file_is_sent_from_where_it_is_and_left_there_for_the_sdk() -> None:
    wire, sdk = Wire(answer(b"", 503)), Sdk()
    spool = BytesIO(b"headtail")
    spool.seek(4)

    await client_of(wire, sdk, "s3").put_object(
        Bucket="b", Key="k", Body=spool, ContentType="t"
    )

    assert wire.sent[0].endswith(b"\r\n\r\ntail")
    assert (["put_object"], 4) == (sdk.asked, spool.tell())


async def test_the_account_is_asked_for_without_the_sdk() -> None:
    said = (
        b"<GetCallerIdentityResponse><GetCallerIdentityResult><Arn>arn:aws:iam::123456"
        b"789012:user/a&amp;b</Arn><Account>123456789012</Account>"
    )
    sdk = Sdk()
    client = client_of(Wire(answer(said), answer(b"<Error/>", 403)), sdk, "sts")

    found = await client.get_caller_identity()

    arn = "arn:aws:iam::123456789012:user/a&b"
    assert {"Account": "123456789012", "Arn": arn} == found
    assert OF_SDK == await client.get_caller_identity()


@pytest.mark.parametrize(
    ("url", "bucket", "target"),
    [
        (HERE, "b", "127.0.0.1:1/b/{key}"),
        (
            "https://s3.us-east-1.amazonaws.com",
            "b",
            "b.s3.us-east-1.amazonaws.com/{key}",
        ),
        (
            "https://s3.us-east-1.amazonaws.com",
            "b.c",
            "s3.us-east-1.amazonaws.com/b.c/{key}",
        ),
    ],
)
@pytest.mark.parametrize("method", ["GET", "PUT"])
async def test_an_object_is_requested_with_the_sdks_signature(
    method: str, url: str, bucket: str, target: str
) -> None:
    wire = Wire(answer(b"", x_amz_request_id="1"))
    client = client_of(wire, Sdk(), "s3", url)
    place = {"Bucket": bucket, "Key": "tenants/t 1/jobs/j/é.json"}
    if method == "GET":
        await client.get_object(**place)
    else:
        await client.put_object(**place, Body=b"content", ContentType="text/plain")
    lines, _, body = wire.sent[0].partition(b"\r\n\r\n")
    first, *fields = lines.decode().split("\r\n")
    head = dict(line.split(": ", 1) for line in fields)
    whole = head["Host"] + first.split(" ")[1]

    scheme = url.partition("://")[0]
    theirs = AWSRequest(method, f"{scheme}://{whole}", data=body)
    theirs.context["timestamp"] = head["X-Amz-Date"]
    signer = S3SigV4Auth(ReadOnlyCredentials("AKID", "secret", None), "s3", "us-east-1")
    signed_names = head["Authorization"].split("SignedHeaders=")[1].split(",")[0]
    for name, value in head.items():
        if name.lower() in signed_names.split(";"):
            theirs.headers[name] = value
    assert theirs.headers["X-Amz-Content-SHA256"] == sha256(body).hexdigest()
    signed = signer.string_to_sign(theirs, signer.canonical_request(theirs))

    key = "tenants/t%201/jobs/j/%C3%A9.json"
    assert target.format(key=key) == whole
    assert head["Authorization"].endswith(signer.signature(signed, theirs))
