from __future__ import annotations

import io

import pytest
from botocore.exceptions import EndpointConnectionError

from piecework.aws.objects import INLINE_LIMIT, LINES_BLOCK, Objects, verify
from piecework.domain import keys
from piecework.domain.rows import Row
from piecework.errors import PermanentError, PieceworkError, StateError, StoreError
from tests.unit.piecework.bucket import Bucket, failure


@pytest.fixture
def bucket() -> Bucket:
    return Bucket()


@pytest.fixture
def objects(bucket: Bucket) -> Objects:
    return Objects(bucket, "bucket")  # type: ignore[arg-type]


async def test_an_object_reads_back_whole_or_in_part(objects: Objects) -> None:
    assert await objects.put("a", b"0123456789") == "a"
    assert await objects.get("a") == b"0123456789"
    assert await objects.get("a", start=2, length=3) == b"234"
    assert await objects.get("a", start=8, length=30) == b"89"


async def test_a_file_is_put_as_it_is_and_with_its_type(
    objects: Objects, bucket: Bucket
) -> None:
    await objects.put("a", io.BytesIO(b"text"), "text/markdown")
    assert (bucket.objects["a"], bucket.types["a"]) == (b"text", "text/markdown")


async def test_an_object_that_is_gone_is_lost_state(objects: Objects) -> None:
    with pytest.raises(StateError) as caught:
        await objects.get("a")
    assert caught.value.code == "runtime.object.missing"


@pytest.mark.parametrize(
    ("code", "raised"),
    [
        ("NoSuchKey", "runtime.object.missing"),
        ("AccessDenied", "aws.access.denied"),
        ("KMS.DisabledException", "aws.key.unusable"),
        ("ExpiredToken", "aws.credentials.expired"),
    ],
)
async def test_gone_and_forbidden_are_different_errors(
    objects: Objects, bucket: Bucket, code: str, raised: str
) -> None:
    bucket.errors = [failure(code)]
    with pytest.raises(PieceworkError) as caught:
        await objects.get("a")
    assert caught.value.code == raised
    gone = isinstance(caught.value, StateError)
    assert gone or (isinstance(caught.value, StoreError) and caught.value.is_outage)


async def test_lines_of_an_object_that_is_gone_are_lost_state(objects: Objects) -> None:
    with pytest.raises(StateError) as caught:
        [line async for line in objects.lines("a")]
    assert caught.value.code == "runtime.object.missing"


async def test_behind_the_end_of_an_object_is_nothing(
    objects: Objects, bucket: Bucket
) -> None:
    bucket.errors = [failure("InvalidRange")]
    assert b"" == await objects.get("a", start=100, length=10)


async def test_a_large_object_comes_in_blocks(objects: Objects, bucket: Bucket) -> None:
    bucket.objects["a"] = b"x" * (LINES_BLOCK + 1)
    assert [LINES_BLOCK, 1] == [len(block) async for block in objects.blocks("a")]


@pytest.mark.parametrize(
    "error", [failure("SlowDown"), EndpointConnectionError(endpoint_url="http://s3")]
)
async def test_a_bucket_that_does_not_answer_is_the_stores_failure(
    objects: Objects, bucket: Bucket, error: Exception
) -> None:
    bucket.errors = [error, error]
    with pytest.raises(StoreError):
        await objects.get("a")
    with pytest.raises(StoreError):
        [name async for name in objects.names("a")]


async def test_lines_come_without_the_empty_ones(objects: Objects) -> None:
    await objects.put("a", b"one\n\ntwo\n")
    assert [line async for line in objects.lines("a")] == [b"one", b"two"]


async def test_names_come_from_all_pages(objects: Objects) -> None:
    for key in ("a/1", "a/2", "a/3", "b/1"):
        await objects.put(key, b"")
    assert [n async for n in objects.names("a/")] == ["a/1", "a/2", "a/3"]
    assert [n async for n in objects.names("c/")] == []


async def test_a_small_value_stays_in_its_row(objects: Objects, bucket: Bucket) -> None:
    text = "x" * INLINE_LIMIT
    assert await objects.put_value(text, "a") == {"value": text}
    assert bucket.objects == {}


async def test_a_large_value_goes_to_the_bucket_with_its_hash(
    objects: Objects, bucket: Bucket
) -> None:
    text = "x" * (INLINE_LIMIT + 1)
    row = await objects.put_value(text, "a/v")
    sha256 = keys.sha256(text.encode())
    assert row == {"value_at": f"a/v-{sha256[:16]}.json", "value_sha256": sha256}
    assert bucket.objects[row["value_at"]] == text.encode()
    assert await objects.get_value(Row(row), "a") == text


async def test_size_is_counted_in_bytes(objects: Objects) -> None:
    row = await objects.put_value("\u00e9" * (INLINE_LIMIT // 2 + 1), "a")
    assert "value_at" in row


async def test_a_value_in_its_row_needs_no_read(
    objects: Objects, bucket: Bucket
) -> None:
    assert await objects.get_value(Row({"value": "text"}), "a") == "text"
    assert bucket.reads == []


async def test_a_value_that_was_changed_behind_our_back_is_refused(
    objects: Objects, bucket: Bucket
) -> None:
    row = await objects.put_value("x" * (INLINE_LIMIT + 1), "a/v")
    bucket.objects[row["value_at"]] = b"y"
    with pytest.raises(PermanentError) as caught:
        await objects.get_value(Row(row), "a")
    assert caught.value.code == "runtime.payload.corrupt"


def test_verifying_takes_exactly_what_was_written() -> None:
    verify(b"text", keys.sha256(b"text"), "it")
    with pytest.raises(PermanentError, match="was changed after it was written"):
        verify(b"text ", keys.sha256(b"text"), "it")
