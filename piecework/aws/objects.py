"""The objects in S3: payloads, manifests, artifacts, certificates, large values."""

from __future__ import annotations

import asyncio
import unicodedata
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterator,
    Mapping,
)
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import unquote

from botocore.exceptions import BotoCoreError, ClientError, ResponseStreamingError

from piecework.aws.errors import reaching
from piecework.domain import keys, records
from piecework.domain.rows import Row
from piecework.errors import PermanentError, StateError

if TYPE_CHECKING:
    from types_aiobotocore_s3.client import S3Client
    from types_aiobotocore_s3.type_defs import GetObjectOutputTypeDef

#: Values above this many bytes go to S3. An item may hold 400 KB, and every write of
#: it is billed by size.
INLINE_LIMIT = 64 * 1024
#: Bytes of an object, or of a range of it, that one read holds in memory. A worker may
#: hold one such read for each of its chunks.
OBJECT_LIMIT = 64 * 1024 * 1024
#: The codes of S3 for a missing object. Without `s3:ListBucket` S3 would say that the
#: access is denied, so each role that reads objects has it.
GONE = frozenset({"NoSuchKey", "404"})
#: The answer of S3 if the whole range is behind the object's end.
OUT_OF_RANGE = "InvalidRange"
#: Bytes of a line at most, and bytes of one read of lines. A line of a manifest has
#: about 200.
LINE_LIMIT = 16 * 1024
LINES_BLOCK = 64 * 1024
#: Versions of objects that are deleted at the same time.
DELETED_AT_ONCE = 16


@dataclass(slots=True)
class Objects:
    """The operations on the bucket."""

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
        """Read an object, or `length` bytes from `start` (fewer at its end).

        Raises:
            StateError: `runtime.object.missing`.
            StoreError: S3 cannot be reached, or refuses to read it.
            PermanentError: `runtime.object.too_large`, before the body is read.
        """
        request: dict[str, Any] = {"Bucket": self.bucket, "Key": key}
        if length:
            request["Range"] = f"bytes={start}-{start + length - 1}"
        with reaching(self.bucket):
            try:
                reply = await self._opened(request)
            except ClientError as error:
                if error.response["Error"]["Code"] != OUT_OF_RANGE:
                    raise
                return b""
            async with reply["Body"] as body:
                require_small(key, reply.get("ContentLength", 0), length or most)
                with map_read_errors():
                    content: bytes = await body.read()
                return content

    async def lines(self, key: str) -> AsyncIterator[bytes]:
        """Yield the lines of an object, block by block.

        Raises:
            StateError: `runtime.object.missing`.
            PermanentError: `runtime.record.unreadable`: a line is longer than 16 KiB.
        """
        held = b""
        async with aclosing(self.blocks(key)) as blocks:
            async for block in blocks:
                *lines, held = (held + block).split(b"\n")
                for line in filter(None, lines):
                    yield require_short(line, key)
                require_short(held, key)
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
            message = f"The object {request['Key']} does not exist."
            raise StateError(message, code="runtime.object.missing") from error

    async def names(self, prefix: str) -> AsyncIterator[str]:
        """Yield the keys that begin with a prefix."""
        pages = self.client.get_paginator("list_objects_v2")
        with reaching(self.bucket):
            async for page in pages.paginate(Bucket=self.bucket, Prefix=prefix):
                for found in page.get("Contents", []):
                    yield found["Key"]

    async def remove_all(self, prefix: str) -> AsyncIterator[str]:
        """Delete the objects that begin with a prefix, in all versions; yield each key.

        A version that is deleted by its id is gone for good, also in a bucket that
        keeps old versions.
        """
        with reaching(self.bucket):
            while True:
                page: Any = await self.client.list_object_versions(
                    Bucket=self.bucket, Prefix=prefix
                )
                found = [*page.get("Versions", []), *page.get("DeleteMarkers", [])]
                if not found:
                    return
                for first in range(0, len(found), DELETED_AT_ONCE):
                    some = found[first : first + DELETED_AT_ONCE]
                    await asyncio.gather(*map(self._delete_version, some))
                    for each in some:
                        yield each["Key"]

    async def _delete_version(self, found: Mapping[str, Any]) -> None:
        await self.client.delete_object(
            Bucket=self.bucket, Key=found["Key"], VersionId=found["VersionId"]
        )

    async def put_value(self, text: str, stem: str) -> dict[str, str]:
        """Return the attributes in which a row stores a value of any size.

        The key of a large value contains its hash. So a worker that lost the chunk does
        not replace the object that the next owner's row names.
        """
        content = text.encode()
        if len(content) <= INLINE_LIMIT:
            return {"value": text}
        sha256 = keys.sha256(content)
        key = keys.large_value_key(stem, sha256)
        return {"value_at": await self.put(key, content), "value_sha256": sha256}

    async def get_value(self, row: Row, prefix: str) -> str:
        """Return the value of a row; see `read_value`."""
        return await read_value(self.get, row, prefix)


async def read_value(
    get: Callable[[str], Awaitable[bytes]], row: Row, prefix: str
) -> str:
    """Return the value of a row, as `put_value` wrote it under its job's prefix.

    `get` reads an object by its key.

    Raises:
        PermanentError: `runtime.payload.corrupt`; `runtime.record.unreadable`:
            the row is malformed.
    """
    item = row.item
    if "value_at" not in item:
        return records.read_text(item, "value", "A stored value")
    key = own_key(records.read_text(item, "value_at", "A stored value"), prefix)
    content = await get(key)
    verify(content, records.read_text(item, "value_sha256", key), key)
    return content.decode()


@contextmanager
def map_read_errors() -> Iterator[None]:
    """Raise an error of the HTTP library while a body is read as an error of the SDK.

    The SDK maps errors until the headers of an answer have arrived, but not later.
    """
    try:
        yield
    except BotoCoreError:
        raise
    except Exception as error:
        import aiohttp  # the SDK has loaded it

        if isinstance(error, aiohttp.ClientError | OSError):
            raise ResponseStreamingError(error=error) from error
        raise


async def read_block(body: Any) -> bytes:
    """Return the next part of an answer's body; empty at its end."""
    with map_read_errors():
        content: bytes = await body.read(LINES_BLOCK)
        return content


def own_key(key: str, prefix: str) -> str:
    """Return a key that a row names, if the key belongs to the row's own job.

    Raises:
        PermanentError: `runtime.record.unreadable`: an edited row could name an object
            of another job or tenant.
    """
    if not key.startswith(f"{prefix}/") or not is_object_key(key):
        raise records.unreadable_error(
            "A row", f"names an object that is not in {prefix}"
        )
    return key


def require_small(key: str, size: int, most: int) -> None:
    """Refuse an object that is too large, before its body is read.

    Raises:
        PermanentError: `runtime.object.too_large`.
    """
    if size > most:
        message = f"The object {key} has {size:,} bytes; the limit is {most:,}."
        raise PermanentError(message, code="runtime.object.too_large")


def require_short(line: bytes, key: str) -> bytes:
    """Return a line if its length is within `LINE_LIMIT`.

    Raises:
        PermanentError: `runtime.record.unreadable`.
    """
    if len(line) > LINE_LIMIT:
        raise records.unreadable_error(
            f"The object {key}", f"has a line of more than {LINE_LIMIT:,} bytes"
        )
    return line


def verify(content: bytes, sha256: str, what: str) -> None:
    """Refuse content whose hash differs from the stored one.

    Raises:
        PermanentError: `runtime.payload.corrupt`.
    """
    if keys.sha256(content) != sha256:
        message = f"{what} was changed after it was written: its SHA-256 differs."
        raise PermanentError(message, code="runtime.payload.corrupt")


# ── safe object keys ────────────────────────────────────────────────────────

#: Bytes of an object's key at most: a limit of S3.
KEY_BYTES = 1_024
#: How often a key is decoded. A key that needs more rounds is refused.
_DECODED_TIMES = 8
#: Characters that look like a slash, and that NFKC does not turn into one.
_LOOK_ALIKES = dict.fromkeys(map(ord, "\u2044\u2215\u29f5\u29f8\u29f9\u2571"), "/")


def is_object_key(text: str) -> bool:
    """Return whether a text is safe as the key of an object in every system.

    Object stores accept any text. File systems, proxies and libraries before them
    resolve `..`, decode `%2e`, fold look-alikes or stop at a NUL.
    """
    if not 0 < len(text.encode(errors="replace")) <= KEY_BYTES:
        return False
    for _ in range(_DECODED_TIMES):
        before = text
        text = unquote(unicodedata.normalize("NFKC", text).translate(_LOOK_ALIKES))
        if text == before:
            break
    else:
        return False
    parts = [part.partition(";")[0] for part in text.split("/")]
    plain = text.isprintable() and "\\" not in text and "\ufffd" not in text
    return plain and not any(part in {"", ".", ".."} for part in parts)
