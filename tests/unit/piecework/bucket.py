"""A bucket in memory, behind the client's own verbs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Self

from botocore.exceptions import ClientError


class Body:
    """What comes back from a read."""

    def __init__(self, content: bytes) -> None:
        self.content = content

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None: ...

    async def read(self, amt: int = -1) -> bytes:
        most = len(self.content) if amt < 0 else amt
        block, self.content = self.content[:most], self.content[most:]
        return block


class Bucket:
    """Keeps objects, and what was asked; fails the next requests as it is told."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.types: dict[str, str] = {}
        self.reads: list[str] = []
        self.errors: list[Exception] = []
        self.takes_nothing = False

    async def put_object(self, **put: Any) -> None:
        if self.takes_nothing:
            raise failure("ServiceUnavailable")
        body = put["Body"]
        self.objects[put["Key"]] = body if isinstance(body, bytes) else body.read()
        self.types[put["Key"]] = put["ContentType"]

    async def get_object(self, **get: Any) -> dict[str, Any]:
        self.reads.append(f"{get['Key']} {get.get('Range', 'all')}")
        if self.errors:
            raise self.errors.pop(0)
        if get["Key"] not in self.objects:
            raise failure("NoSuchKey")
        content = self.objects[get["Key"]]
        if "Range" in get:
            first, last = get["Range"].removeprefix("bytes=").split("-")
            content = content[int(first) : int(last) + 1]
        return {"Body": Body(content)}

    def get_paginator(self, _: str) -> Bucket:
        return self

    async def paginate(self, **asked: Any) -> AsyncIterator[dict[str, Any]]:
        if self.errors:
            raise self.errors.pop(0)
        found = [{"Key": k} for k in self.objects if k.startswith(asked["Prefix"])]
        yield {"Contents": found[:1]}
        yield {"Contents": found[1:]} if found[1:] else {}


def failure(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": code}}, "GetObject")
