"""An object whose bytes stop coming is an outage, and no fault of the chunk."""

from __future__ import annotations

from typing import Any

import aiohttp
import pytest
from aiobotocore.response import AioReadTimeoutError

from piecework.aws.objects import Objects
from piecework.errors import StoreError
from tests.unit.piecework.bucket import Body, Bucket

BREAKS = [
    aiohttp.ClientPayloadError("not enough data"),
    aiohttp.ServerDisconnectedError(),
    aiohttp.SocketTimeoutError("nothing came"),
    ConnectionResetError("reset by peer"),
    AioReadTimeoutError(endpoint_url="https://bucket", error="late"),
]


class BreakingBody(Body):
    def __init__(self, content: bytes, breaks: Exception) -> None:
        super().__init__(content)
        self.breaks = breaks

    async def read(self, amt: int = -1) -> bytes:
        if amt < 0 or not (some := await super().read(amt)):
            raise self.breaks
        return some


@pytest.fixture
def objects(request: pytest.FixtureRequest) -> Objects:
    bucket: Any = Bucket()
    whole = bucket.get_object

    async def get_object(**get: Any) -> dict[str, Any]:
        await whole(**get)
        return {"Body": BreakingBody(b"one\ntwo", request.param)}

    bucket.objects["a"] = b"one\ntwo\n"
    bucket.get_object = get_object
    return Objects(bucket, "bucket")


@pytest.mark.parametrize("objects", BREAKS, indirect=True, ids=repr)
async def test_an_object_that_breaks_off_is_an_outage(objects: Objects) -> None:
    with pytest.raises(StoreError):
        await objects.get("a")


@pytest.mark.parametrize("objects", BREAKS, indirect=True, ids=repr)
async def test_lines_that_break_off_are_an_outage(objects: Objects) -> None:
    lines = objects.lines("a")

    assert b"one" == await anext(lines)
    with pytest.raises(StoreError):
        await anext(lines)
