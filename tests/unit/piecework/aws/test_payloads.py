from __future__ import annotations

import asyncio

import pytest

from piecework.aws.objects import Objects
from piecework.aws.payloads import WINDOW, WINDOWS_KEPT, PayloadRef, Payloads
from piecework.domain import keys
from piecework.errors import PermanentError, StateError, StoreError
from tests.unit.piecework.bucket import Bucket, failure

KEY = keys.pack_key("acme", "j", "pack")
CONTENT = b"".join(b"%09d\n" % n for n in range(WINDOW * 5 // 10))


@pytest.fixture
def bucket() -> Bucket:
    bucket = Bucket()
    bucket.objects[KEY] = CONTENT
    return bucket


@pytest.fixture
def payloads(bucket: Bucket) -> Payloads:
    return Payloads(Objects(bucket, "bucket"))  # type: ignore[arg-type]


async def read(payloads: Payloads, offset: int, length: int) -> bytes:
    sha256 = keys.sha256(CONTENT[offset : offset + length])
    ref = PayloadRef("pack", offset, length)
    return await payloads.read("acme", "j", ref, sha256)


def test_a_place_reads_back_as_it_was_written() -> None:
    ref = PayloadRef("abc", 12, 34)
    assert str(ref) == "abc/12+34"
    assert PayloadRef.parse("abc/12+34") == ref


@pytest.mark.parametrize(
    ("offset", "length"),
    [
        (0, 1),
        (0, WINDOW),
        (0, WINDOW + 1),
        (WINDOW - 1, 1),
        (WINDOW - 1, 2),
        (WINDOW, 1),
        (WINDOW, WINDOW),
        (WINDOW - 5, 10),
        (WINDOW - 1, WINDOW + 2),
        (1, 3 * WINDOW),
        (0, len(CONTENT)),
        (len(CONTENT) - 1, 1),
    ],
)
async def test_a_payload_is_its_own_bytes_wherever_the_windows_lie(
    payloads: Payloads, offset: int, length: int
) -> None:
    assert await read(payloads, offset, length) == CONTENT[offset : offset + length]


async def test_neighbours_share_one_request(payloads: Payloads, bucket: Bucket) -> None:
    for offset in range(0, WINDOW - 10, WINDOW // 7):
        await read(payloads, offset, 10)
    assert bucket.reads == [f"{KEY} bytes=0-{WINDOW - 1}"]


async def test_neighbours_share_a_request_that_is_under_way(
    payloads: Payloads, bucket: Bucket
) -> None:
    await asyncio.gather(*(read(payloads, n, 10) for n in range(20)))
    assert len(bucket.reads) == 1


async def test_a_payload_over_a_border_reads_two_windows(
    payloads: Payloads, bucket: Bucket
) -> None:
    await read(payloads, WINDOW - 1, 2)
    assert len(bucket.reads) == 2


@pytest.mark.parametrize("offset", [0, WINDOW - 10])
async def test_a_payload_up_to_a_border_reads_no_window_beyond(
    payloads: Payloads, bucket: Bucket, offset: int
) -> None:
    await read(payloads, offset, WINDOW - offset)
    assert len(bucket.reads) == 1


@pytest.mark.parametrize("offset", [1, WINDOW - 1])
async def test_a_large_payload_is_read_alone_and_not_kept(
    payloads: Payloads, bucket: Bucket, offset: int
) -> None:
    length = 2 * WINDOW + 1 - offset
    for _ in range(2):
        await read(payloads, offset, length)
    assert bucket.reads == [f"{KEY} bytes={offset}-{2 * WINDOW}"] * 2


async def test_only_so_many_windows_are_kept_the_oldest_goes_first(
    payloads: Payloads, bucket: Bucket
) -> None:
    for n in range(WINDOWS_KEPT + 1):
        bucket.objects[keys.pack_key("acme", "j", f"p{n}")] = b"text"
        if n == WINDOWS_KEPT:
            await payloads.read(
                "acme", "j", PayloadRef("p0", 0, 4), keys.sha256(b"text")
            )
        ref = PayloadRef(f"p{n}", 0, 4)
        await payloads.read("acme", "j", ref, keys.sha256(b"text"))
    assert len(payloads._windows) == WINDOWS_KEPT
    before = len(bucket.reads)
    await payloads.read("acme", "j", PayloadRef("p0", 0, 4), keys.sha256(b"text"))
    assert len(bucket.reads) == before
    await payloads.read("acme", "j", PayloadRef("p1", 0, 4), keys.sha256(b"text"))
    assert len(bucket.reads) == before + 1


async def test_bytes_that_are_not_those_submitted_are_refused(
    payloads: Payloads,
) -> None:
    with pytest.raises(PermanentError) as caught:
        await payloads.read("acme", "j", PayloadRef("pack", 0, 4), keys.sha256(b"no"))
    assert caught.value.code == "runtime.payload.corrupt"
    assert "pack/0+4" in caught.value.message


async def test_a_pack_that_is_gone_is_lost_state(payloads: Payloads) -> None:
    with pytest.raises(StateError) as caught:
        await payloads.read("acme", "other", PayloadRef("pack", 0, 4), "")
    assert caught.value.code == "runtime.object.missing"


async def test_a_read_that_failed_is_made_again(
    payloads: Payloads, bucket: Bucket
) -> None:
    bucket.errors = [failure("SlowDown")]
    with pytest.raises(StoreError):
        await read(payloads, 0, 10)
    assert await read(payloads, 0, 10) == CONTENT[:10]


async def test_a_read_that_fails_after_its_reader_left_is_made_again(
    payloads: Payloads, bucket: Bucket
) -> None:
    bucket.errors = [failure("SlowDown")]
    reader = asyncio.create_task(read(payloads, 0, 10))
    await asyncio.sleep(0)
    reader.cancel()
    for _ in range(5):
        await asyncio.sleep(0)
    assert reader.cancelled()
    assert await read(payloads, 0, 10) == CONTENT[:10]


async def test_a_reader_that_leaves_does_not_take_the_read_with_it(
    payloads: Payloads, bucket: Bucket
) -> None:
    first = asyncio.create_task(read(payloads, 0, 10))
    second = asyncio.create_task(read(payloads, 20, 10))
    await asyncio.sleep(0)
    first.cancel()
    assert await second == CONTENT[20:30]
    assert len(bucket.reads) == 1
