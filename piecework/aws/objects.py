"""What is too large for a row: payloads, manifests, results, certificates in S3."""

from __future__ import annotations

import asyncio
import re
import unicodedata
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import unquote

import aiohttp
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
#: Bytes of an object, or of what was asked of it, that are read at once: a worker has
#: as many in hand as chunks.
OBJECT_LIMIT = 64 * 1024 * 1024
#: The codes of S3 for a missing object. Without `s3:ListBucket` S3 would say that the
#: access is denied, so each role that reads objects has it.
GONE = frozenset({"NoSuchKey", "404"})
#: What it says if all that was asked for lies behind an object's end.
OUT_OF_RANGE = "InvalidRange"
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
            StoreError: S3 cannot be reached, or refuses to read it.
            PermanentError: `runtime.object.too_large`, before any of it is read.
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
        """Yield the keys that begin so."""
        pages = self.client.get_paginator("list_objects_v2")
        with reaching(self.bucket):
            async for page in pages.paginate(Bucket=self.bucket, Prefix=prefix):
                for found in page.get("Contents", []):
                    yield found["Key"]

    async def put_value(self, text: str, stem: str) -> dict[str, str]:
        """Return the attributes with which a row stores a value of any size.

        The key of a large value contains its hash: a worker that lost the chunk must
        not replace the object that the next owner's row names.
        """
        content = text.encode()
        if len(content) <= INLINE_LIMIT:
            return {"value": text}
        sha256 = keys.sha256(content)
        key = keys.large_value_key(stem, sha256)
        return {"value_at": await self.put(key, content), "value_sha256": sha256}

    async def get_value(self, row: Row, prefix: str) -> str:
        """Return the value of a row, as `put_value` wrote it under its job's prefix.

        Raises:
            PermanentError: `runtime.payload.corrupt`; `runtime.record.unreadable`:
                the row is not as it was written.
        """
        item = row.item
        if "value_at" not in item:
            return records.read_text(item, "value", "A stored value")
        key = own_key(records.read_text(item, "value_at", "A stored value"), prefix)
        content = await self.get(key)
        verify(content, records.read_text(item, "value_sha256", key), key)
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
        raise records.unreadable_error(
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


def require_short(line: bytes, key: str) -> bytes:
    """Return a line that is no longer than ours are.

    Raises:
        PermanentError: `runtime.record.unreadable`.
    """
    if len(line) > LINE_LIMIT:
        raise records.unreadable_error(
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


# Which texts may be keys of objects, whoever resolves, decodes or folds them later.

#: Bytes of an object's key, as S3 has it.
KEY_BYTES = 1_024
#: How often a key is decoded; what has more to it hides something.
_DECODED_TIMES = 8
#: What is drawn like a slash, and no form of one to Unicode.
_LOOK_ALIKES = dict.fromkeys(map(ord, "\u2044\u2215\u29f5\u29f8\u29f9\u2571"), "/")


def is_object_key(text: str) -> bool:
    """Say whether a text may be the key of an object, whoever is asked for it.

    Object stores take any text; the file systems, proxies and libraries on the way to
    them may not: they resolve `..`, decode `%2e`, fold look-alikes, stop at a NUL.
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


# Chunk payloads: packed into few objects at submit, read by byte range at work.
#
#     tenants/<tenant>/jobs/<job>/payload/<hash>.jsonl     one payload a line
#
# A pack is named by its content, so that writing it twice is writing it once. Readers
# fetch aligned windows and keep a few: SQS hands out chunks roughly in their order, so
# that one request serves many neighbours, however small they are.

#: Bytes a pack may grow to before the next one begins: what the submitter holds.
PACK_SIZE = 8 * 1024 * 1024
#: Bytes of one read, and how many reads a worker keeps: at most 16 MiB.
WINDOW = 256 * 1024
WINDOWS_KEPT = 64
#: Bytes of a payload, at most; one is held whole, and parsed.
MOST_BYTES = 10 * 1024 * 1024
#: What names a pack is a name, so that it leads nowhere else.
_PLACE = re.compile(
    r"(?P<pack>[A-Za-z0-9_-]{1,64})/(?P<offset>[0-9]{1,12})\+(?P<length>[0-9]{1,12})\Z"
)


@dataclass(frozen=True, slots=True)
class PayloadRef:
    """Where a payload lies: its pack, the offset and length in bytes."""

    pack: str
    offset: int
    length: int

    def __str__(self) -> str:
        """Return the form that a chunk item carries."""
        return f"{self.pack}/{self.offset}+{self.length}"

    @classmethod
    def parse(cls, text: str) -> PayloadRef:
        """Read the form that a chunk item carries.

        Raises:
            PermanentError: `runtime.record.unreadable`: it may name no other object,
                nor more than a payload may have.
        """
        found = _PLACE.match(text)
        if found is None or not 0 < int(found["length"]) <= MOST_BYTES:
            raise records.unreadable_error("The place of a payload", "is none of ours")
        return cls(found["pack"], int(found["offset"]), int(found["length"]))


@dataclass(slots=True)
class Payloads:
    """The payloads that a worker reads."""

    objects: Objects
    _windows: OrderedDict[tuple[str, int], asyncio.Future[bytes]] = field(
        default_factory=OrderedDict
    )

    async def read(self, tenant: str, job: str, ref: PayloadRef, sha256: str) -> bytes:
        """Return a payload's bytes, as they were submitted.

        Raises:
            StateError: `runtime.object.missing`.
            PermanentError: `runtime.payload.corrupt`.
        """
        key = keys.pack_key(tenant, job, ref.pack)
        content = await self._slice(key, ref)
        verify(content, sha256, f"The payload {ref}")
        return content

    async def _slice(self, key: str, ref: PayloadRef) -> bytes:
        first, last = ref.offset // WINDOW, (ref.offset + ref.length - 1) // WINDOW
        if last - first > 1:
            return await self.objects.get(key, start=ref.offset, length=ref.length)
        windows = [await self._window(key, i) for i in range(first, last + 1)]
        start = ref.offset - first * WINDOW
        return b"".join(windows)[start : start + ref.length]

    async def _window(self, key: str, index: int) -> bytes:
        place = (key, index)
        if place in self._windows:
            self._windows.move_to_end(place)
            return await asyncio.shield(self._windows[place])
        reading = asyncio.ensure_future(
            self.objects.get(key, start=index * WINDOW, length=WINDOW)
        )
        reading.add_done_callback(lambda read: self._keep(place, read))
        self._windows[place] = reading
        if len(self._windows) > WINDOWS_KEPT:
            self._windows.popitem(last=False)
        return await asyncio.shield(reading)

    def _keep(self, place: tuple[str, int], reading: asyncio.Future[bytes]) -> None:
        """Forget a read that failed, whether or not somebody still waits for it."""
        failed = reading.cancelled() or reading.exception() is not None
        if failed and self._windows.get(place) is reading:
            del self._windows[place]
