"""What is too large for a row: payloads, manifests, results, certificates in S3."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

import aiohttp
from botocore.exceptions import BotoCoreError, ClientError, ResponseStreamingError

from piecework import keys, record
from piecework.errors import PermanentError, StateError
from piecework.object_keys import is_object_key
from piecework.store.outage import reaching

if TYPE_CHECKING:
    from types_aiobotocore_s3.client import S3Client
    from types_aiobotocore_s3.type_defs import GetObjectOutputTypeDef

#: Values above this many bytes go to S3. An item may hold 400 KB, and every write of
#: it is billed by size.
INLINE_LIMIT = 64 * 1024
#: Bytes of an object, or of what was asked of it, that are read at once: a worker has
#: as many in hand as chunks.
OBJECT_LIMIT = 64 * 1024 * 1024
#: What S3 says of an object that is gone: the truth only to who may list the bucket,
#: which a worker may not.
GONE = frozenset({"NoSuchKey", "404", "AccessDenied", "403"})
#: What it says if all that was asked for lies behind an object's end.
BEYOND = "InvalidRange"
#: Bytes of a line, of which a manifest's has some 200; and of one read of them.
LINE_LIMIT = 16 * 1024
LINES_BLOCK = 64 * 1024


@dataclass(slots=True)
class Objects:
    """The bucket, as a few verbs."""

    client: S3Client
    bucket: str

    async def put(
        self, key: str, content: bytes | IO[bytes], media_type: str = "application/json"
    ) -> str:
        """Write an object and return its key."""
        with reaching(self.bucket):
            await self.client.put_object(
                Bucket=self.bucket, Key=key, Body=content, ContentType=media_type
            )
        return key

    async def get(
        self, key: str, *, start: int = 0, length: int = 0, most: int = OBJECT_LIMIT
    ) -> bytes:
        """Read an object, or `length` bytes of it (fewer at its end).

        Raises:
            StateError: `runtime.object.missing`.
            PermanentError: `runtime.object.too_large`, before any of it is read.
        """
        request: dict[str, Any] = {"Bucket": self.bucket, "Key": key}
        if length:
            request["Range"] = f"bytes={start}-{start + length - 1}"
        with reaching(self.bucket):
            try:
                reply = await self._opened(request)
            except ClientError as error:
                if error.response["Error"]["Code"] != BEYOND:
                    raise
                return b""
            async with reply["Body"] as body:
                require_small(key, reply.get("ContentLength", 0), length or most)
                with map_read_errors():
                    content: bytes = await body.read()
                return content

    async def lines(self, key: str) -> AsyncIterator[bytes]:
        """Yield the lines of an object without holding it.

        Raises:
            StateError: `runtime.object.missing`.
            PermanentError: `runtime.record.unreadable`: a line is none of ours.
        """
        held = b""
        async with aclosing(self.blocks(key)) as blocks:
            async for block in blocks:
                *lines, held = (held + block).split(b"\n")
                for line in filter(None, lines):
                    yield short(line, key)
                short(held, key)
        if held:
            yield held

    async def blocks(self, key: str) -> AsyncGenerator[bytes, None]:
        """Yield an object of any size in blocks.

        Raises:
            StateError: `runtime.object.missing`.
        """
        with reaching(self.bucket):
            reply = await self._opened({"Bucket": self.bucket, "Key": key})
            body: Any = reply["Body"]
            async with body:
                while block := await read_block(body):
                    yield block

    async def _opened(self, request: dict[str, Any]) -> GetObjectOutputTypeDef:
        try:
            return await self.client.get_object(**request)
        except ClientError as error:
            if error.response["Error"]["Code"] not in GONE:
                raise
            message = f"The object {request['Key']} is gone, or may not be read."
            raise StateError(message, code="runtime.object.missing") from error

    async def names(self, prefix: str) -> AsyncIterator[str]:
        """Yield the keys that begin so."""
        pages = self.client.get_paginator("list_objects_v2")
        with reaching(self.bucket):
            async for page in pages.paginate(Bucket=self.bucket, Prefix=prefix):
                for found in page.get("Contents", []):
                    yield found["Key"]

    async def put_value(self, text: str, stem: str) -> dict[str, str]:
        """Return the attributes under which a row keeps a value of any size.

        A large one lies under its own hash, too: what somebody writes who lost the
        chunk must not stand in the place of what its next holder's row names.
        """
        content = text.encode()
        if len(content) <= INLINE_LIMIT:
            return {"value": text}
        sha256 = keys.sha256(content)
        key = f"{stem}-{sha256[:16]}.json"
        return {"value_at": await self.put(key, content), "value_sha256": sha256}

    async def fetch(self, item: Mapping[str, Any], prefix: str) -> str:
        """Return the value that `put_value` put into a row, under its job's prefix.

        Raises:
            PermanentError: `runtime.payload.corrupt`; `runtime.record.unreadable`:
                the row is not as it was written.
        """
        if "value_at" not in item:
            return record.read_text(item, "value", "A stored value")
        key = own_key(record.read_text(item, "value_at", "A stored value"), prefix)
        content = await self.get(key)
        verify(content, record.read_text(item, "value_sha256", key), key)
        return content.decode()


@contextmanager
def map_read_errors() -> Iterator[None]:
    """Raise what breaks off an answer half-way as the SDK raises what comes earlier.

    The SDK hands out the body of an answer as its HTTP library has it.
    """
    try:
        yield
    except BotoCoreError:
        raise
    except (aiohttp.ClientError, OSError) as error:
        raise ResponseStreamingError(error=error) from error


async def read_block(body: Any) -> bytes:
    """Return the next part of an answer's body; nothing at its end."""
    with map_read_errors():
        content: bytes = await body.read(LINES_BLOCK)
        return content


def own_key(key: str, prefix: str) -> str:
    """Return a key that a row names, if it is of the row's own job.

    Raises:
        PermanentError: `runtime.record.unreadable`: whoever edited the row would be
            shown another job's, or another tenant's.
    """
    if not key.startswith(f"{prefix}/") or not is_object_key(key):
        raise record.unreadable_error(
            "A row", f"names an object that is not in {prefix}"
        )
    return key


def require_small(key: str, size: int, most: int) -> None:
    """Refuse an object before it is held.

    Raises:
        PermanentError: `runtime.object.too_large`.
    """
    if size > most:
        message = f"The object {key} has {size:,} bytes; {most:,} is the most."
        raise PermanentError(message, code="runtime.object.too_large")


def short(line: bytes, key: str) -> bytes:
    """Return a line that is no longer than ours are.

    Raises:
        PermanentError: `runtime.record.unreadable`.
    """
    if len(line) > LINE_LIMIT:
        raise record.unreadable_error(
            f"The object {key}", "has a line that is none of ours"
        )
    return line


def verify(content: bytes, sha256: str, what: str) -> None:
    """Refuse bytes that are not those that were written.

    Raises:
        PermanentError: `runtime.payload.corrupt`.
    """
    if keys.sha256(content) != sha256:
        message = f"{what} is not what was submitted: its SHA-256 differs."
        raise PermanentError(message, code="runtime.payload.corrupt")
