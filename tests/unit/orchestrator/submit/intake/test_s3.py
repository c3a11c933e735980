from __future__ import annotations

from typing import Any, Self

import aiohttp
import pytest
from aiobotocore.response import StreamingBody
from botocore.exceptions import ClientError, EndpointConnectionError

from piecework.domain.chunk_input import ChunkInput
from piecework.errors import PieceworkError, UnreachableError, UsageError
from tests.unit.orchestrator.submit.intake.conftest import refusal

LINES = b'{"text":"a"}\n{"text":"b"}\n'


class Response:
    """The part of an aiohttp response that a streaming body uses."""

    def __init__(self, blocks: list[bytes | Exception]) -> None:
        self.blocks = blocks
        self.content = self
        self.closed = False
        self.url = "http://localhost/bucket/m.jsonl"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.closed = True

    async def read(self, _: int) -> bytes:
        block = self.blocks.pop(0) if self.blocks else b""
        if isinstance(block, Exception):
            raise block
        return block


class Client:
    """A fake S3 client with one object or one error."""

    def __init__(
        self, *blocks: bytes | Exception, error: Exception | None = None, size: int = 0
    ) -> None:
        self.error = error
        self.response = Response(list(blocks))
        self.size = size or sum(len(b) for b in blocks if isinstance(b, bytes))
        self.request: dict[str, str] = {}

    async def get_object(self, **request: str) -> dict[str, Any]:
        self.request = request
        if self.error:
            raise self.error
        body: Any = StreamingBody  # its stubs describe that of boto3
        return {"Body": body(self.response, str(self.size))}


def refused_with(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": ""}}, "GetObject")


async def test_an_object_is_streamed_by_bucket_and_key(intake: Any) -> None:
    s3 = Client(LINES[:5], LINES[5:20], LINES[20:])
    chunks = await intake("s3://bucket/a/what?#1.jsonl", s3=s3)
    assert {"Bucket": "bucket", "Key": "a/what?#1.jsonl"} == s3.request
    expected = [
        ChunkInput("line 1", b'{"text":"a","position":0}'),
        ChunkInput("line 2", b'{"text":"b","position":0}'),
    ]
    assert expected == chunks
    assert s3.response.closed


NO_ENDPOINT = EndpointConnectionError(endpoint_url="http://localhost")


@pytest.mark.parametrize(
    ("s3", "code", "kind"),
    [
        *(
            (Client(error=refused_with(name)), code, kind)
            for name, code, kind in (
                ("NoSuchKey", "input.source.not_found", UsageError),
                ("NoSuchBucket", "input.source.not_found", UsageError),
                ("AccessDenied", "input.s3.denied", UsageError),
                ("InternalError", "input.s3.unreachable", UnreachableError),
            )
        ),
        *(
            (client, "input.s3.unreachable", UnreachableError)
            for client in (
                Client(error=NO_ENDPOINT),
                Client(LINES, aiohttp.ClientPayloadError()),
                Client(LINES, TimeoutError()),
                Client(LINES, size=100),
                None,
            )
        ),
    ],
)
async def test_errors_of_s3_have_their_own_codes(
    s3: Client | None, code: str, kind: type[PieceworkError], intake: Any
) -> None:
    with pytest.raises(kind) as refused:
        await intake("s3://bucket/m.jsonl", s3=s3)
    assert code == refused.value.code


@pytest.mark.parametrize(
    "source", ["s3://", "s3://bucket", "s3:///k.jsonl", "s3://b/a.pdf"]
)
async def test_only_manifests_are_read_from_s3(source: str, intake: Any) -> None:
    assert (
        await refusal(intake(source, s3=Client(LINES)))
    ).code == "input.file.unsupported"


@pytest.mark.parametrize("key", ["in//m.jsonl", "a/../m.jsonl", "50%2f/m.jsonl"])
async def test_an_unsafe_key_has_its_own_message(key: str, intake: Any) -> None:
    refused = await refusal(intake(f"s3://bucket/{key}", s3=Client(LINES)))
    assert refused.code == "input.file.unsupported"
    assert "does not name a manifest" not in refused.message
    assert "Copy it" in refused.next_step
