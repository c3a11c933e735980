from __future__ import annotations

from io import BytesIO
from typing import Any

import pytest

from piecework_simulation.aws.s3 import S3, pages

PLACE = {"Bucket": "b", "Key": "k"}


@pytest.fixture
def s3() -> S3:
    return S3(lambda: 1_000.9, buckets=["b"])


def put(s3: S3, content: bytes, **more: Any) -> str:
    reply = s3.call("put_object", {**PLACE, "Body": content, **more})
    return str(reply["ETag"])


async def get(s3: S3, **more: Any) -> bytes:
    reply = s3.call("get_object", {**PLACE, **more})
    async with reply["Body"] as body:
        content: bytes = await body.read()
        return content


async def test_a_file_is_written_from_its_position(s3: S3) -> None:
    file = BytesIO(b"a file")
    file.seek(2)
    s3.call("put_object", {**PLACE, "Body": file})
    assert b"file" == await get(s3)


@pytest.mark.parametrize(
    "content",
    [b"", b"a", b"a\nb", b"a\nb\n", b"\n\na\r\nb", b"x" * 3000 + b"\n" + b"y" * 1023],
)
async def test_lines_are_read_as_they_are_split(s3: S3, content: bytes) -> None:
    put(s3, content)
    body = s3.call("get_object", PLACE)["Body"]
    async with body:
        assert content.splitlines() == [line async for line in body.iter_lines()]


async def test_a_listing_goes_on_page_by_page_in_order(s3: S3) -> None:
    for key in ("p/10", "p/9", "p/1", "q/1", "p/ü"):
        s3.call("put_object", {"Bucket": "b", "Key": key})

    async def ask(**request: Any) -> dict[str, Any]:
        return s3.call("list_objects_v2", request)

    found = [
        [entry["Key"] for entry in page.get("Contents", [])]
        async for page in pages(ask, Bucket="b", Prefix="p/", MaxKeys=3)
    ]
    assert [["p/1", "p/10", "p/9"], ["p/ü"]] == found
