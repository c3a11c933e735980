"""S3 in memory: whole objects, read and listed as they were last written.

Each object has one version, `null`, as in a bucket without versioning. Not modelled:
multipart uploads, metadata, rights.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import md5
from typing import Any, Final

from botocore.exceptions import ClientError

from piecework_simulation.aws.errors import error

#: Maximum keys in a page of a listing.
PAGE = 1000
_OBJECT = frozenset({"Bucket", "Key"})
_CONDITIONS = frozenset({"IfMatch", "IfNoneMatch"})
_KNOWN: Final = {
    "put_object": _OBJECT | _CONDITIONS | {"Body", "ContentType"},
    "get_object": _OBJECT | _CONDITIONS | {"Range"},
    "head_object": _OBJECT | _CONDITIONS | {"Range"},
    "delete_object": _OBJECT | {"VersionId"},
    "list_object_versions": frozenset({"Bucket", "Prefix"}),
    "list_objects_v2": frozenset(
        {"Bucket", "Prefix", "StartAfter", "MaxKeys", "ContinuationToken"}
    ),
}
_RANGE = re.compile(r"bytes=(?:(\d+)-(\d*)|-(\d+))")
_STATUS: Final = {
    "304": 304,
    "404": 404,
    "NoSuchBucket": 404,
    "NoSuchKey": 404,
    "412": 412,
    "PreconditionFailed": 412,
    "416": 416,
    "InvalidRange": 416,
}


@dataclass(frozen=True, slots=True)
class Object:
    """An object as it was written."""

    content: bytes
    media_type: str
    written_at: float
    etag: str = field(init=False)

    def __post_init__(self) -> None:
        """Compute the ETag, which S3 uses to distinguish writes."""
        digest = md5(self.content, usedforsecurity=False).hexdigest()
        object.__setattr__(self, "etag", f'"{digest}"')

    @property
    def modified(self) -> datetime:
        """The time of the write, in whole seconds."""
        return datetime.fromtimestamp(int(self.written_at), UTC)


class S3:
    """The buckets of an account.

    Attributes:
        on_write: Called after each write with the bucket, the key and the object; None:
            it was deleted.
    """

    def __init__(self, now: Callable[[], float], *, buckets: Iterable[str]) -> None:
        self.on_write: Callable[[str, str, Object | None], None] = lambda *_: None
        self._now = now
        self._buckets: dict[str, dict[str, Object]] = {name: {} for name in buckets}
        self._operations: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
            "put_object": self._put,
            "get_object": self._get,
            "head_object": self._head,
            "delete_object": self._delete,
            "list_objects_v2": self._list,
            "list_object_versions": self._list_versions,
        }

    def create_bucket(self, name: str) -> None:
        """Create an empty bucket; an existing one keeps its objects."""
        self._buckets.setdefault(name, {})

    def restore(self, bucket: str, key: str, found: Object) -> None:
        """Put back an object that the model has held; `on_write` is not told."""
        self._buckets.setdefault(bucket, {})[key] = found

    def names(self, bucket: str) -> list[str]:
        """Return the keys of all objects in a bucket."""
        return list(self._buckets[bucket])

    def call(self, operation: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """Execute a request.

        Raises:
            ClientError: The error that AWS returns.
            NotImplementedError: The model does not cover the operation or the
                parameter.
        """
        if operation not in self._operations:
            raise NotImplementedError(f"The model of S3 has no {operation}.")
        if unknown := request.keys() - _KNOWN[operation]:
            names = ", ".join(sorted(unknown))
            raise NotImplementedError(f"The model of S3 has no {names} in {operation}.")
        if request["Bucket"] not in self._buckets:
            raise _refused(operation, "NoSuchBucket")
        return self._operations[operation](request)

    def _put(self, request: Mapping[str, Any]) -> dict[str, Any]:
        objects = self._buckets[request["Bucket"]]
        _check_write(objects.get(request["Key"]), request)
        body = request.get("Body", b"")
        content = bytes(body) if isinstance(body, bytes | bytearray) else body.read()
        media_type = request.get("ContentType", "binary/octet-stream")
        written = Object(content, media_type, self._now())
        objects[request["Key"]] = written
        self.on_write(request["Bucket"], request["Key"], written)
        return {"ETag": written.etag}

    def _get(self, request: Mapping[str, Any]) -> dict[str, Any]:
        reply, content = self._read("get_object", request)
        return {**reply, "Body": Body(content)}

    def _head(self, request: Mapping[str, Any]) -> dict[str, Any]:
        return self._read("head_object", request)[0]

    def _read(
        self, operation: str, request: Mapping[str, Any]
    ) -> tuple[dict[str, Any], bytes]:
        found = self._buckets[request["Bucket"]].get(request["Key"])
        if found is None:
            raise _refused(operation, "NoSuchKey")
        _check_read(operation, found, request)
        content, reply = found.content, dict[str, Any]()
        if wanted := _RANGE.fullmatch(request.get("Range", "")):
            first, last = _bounds(operation, wanted, len(content))
            reply["ContentRange"] = f"bytes {first}-{last}/{len(content)}"
            content = content[first : last + 1]
        reply |= {
            "AcceptRanges": "bytes",
            "ContentLength": len(content),
            "ContentType": found.media_type,
            "ETag": found.etag,
            "LastModified": found.modified,
        }
        return reply, content

    def _delete(self, request: Mapping[str, Any]) -> dict[str, Any]:
        if self._buckets[request["Bucket"]].pop(request["Key"], None) is not None:
            self.on_write(request["Bucket"], request["Key"], None)
        return {}

    def _list(self, request: Mapping[str, Any]) -> dict[str, Any]:
        objects, prefix = self._buckets[request["Bucket"]], request.get("Prefix", "")
        after = request.get("ContinuationToken") or request.get("StartAfter", "")
        most = min(request.get("MaxKeys", PAGE), PAGE)
        # S3 orders keys by their bytes, which for UTF-8 is the order of their text.
        keys = sorted(key for key in objects if key.startswith(prefix) and key > after)
        page, cut = keys[:most], len(keys) > most
        reply: dict[str, Any] = {
            "IsTruncated": cut and most > 0,
            "KeyCount": len(page),
            "MaxKeys": most,
            "Name": request["Bucket"],
            "Prefix": prefix,
        }
        if page:
            reply["Contents"] = [_entry(key, objects[key]) for key in page]
        if reply["IsTruncated"]:
            reply["NextContinuationToken"] = page[-1]
        return reply

    def _list_versions(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return the first versions; a caller that deletes them asks for the next."""
        found = self._list(request)
        versions = [
            {**each, "VersionId": "null", "IsLatest": True}
            for each in found.get("Contents", [])
        ]
        reply = {name: found[name] for name in ("IsTruncated", "Name", "Prefix")}
        return {**reply, **({"Versions": versions} if versions else {})}


async def pages(
    list_objects: Callable[..., Awaitable[Mapping[str, Any]]], **request: Any
) -> AsyncIterator[Mapping[str, Any]]:
    """Yield the pages of a listing, as a paginator of `list_objects_v2` does."""
    while True:
        page = await list_objects(**request)
        yield page
        if not page["IsTruncated"]:
            return
        request["ContinuationToken"] = page["NextContinuationToken"]


def _check_write(there: Object | None, request: Mapping[str, Any]) -> None:
    """Raise if the condition of a write fails."""
    if (wanted := request.get("IfNoneMatch")) is not None:
        if wanted != "*":
            raise NotImplementedError("S3 writes know no IfNoneMatch but '*'.")
        if there is not None:
            raise _refused("put_object", "PreconditionFailed")
    if (wanted := request.get("IfMatch")) is not None:
        if there is None:
            raise _refused("put_object", "NoSuchKey")
        if not _same(wanted, there):
            raise _refused("put_object", "PreconditionFailed")


def _check_read(operation: str, there: Object, request: Mapping[str, Any]) -> None:
    """Raise if the condition of a read fails."""
    if "IfMatch" in request and not _same(request["IfMatch"], there):
        raise _refused(operation, "PreconditionFailed")
    if "IfNoneMatch" in request and _same(request["IfNoneMatch"], there):
        raise _refused(operation, "304")


def _same(wanted: str, there: Object) -> bool:
    return wanted in {"*", there.etag, there.etag.strip('"')}


def _bounds(operation: str, wanted: re.Match[str], size: int) -> tuple[int, int]:
    """Return the first and last byte of a range, limited to the object's size."""
    start, end, tail = wanted.groups()
    if tail is not None:
        first, last = max(0, size - int(tail)), size - 1
        satisfiable = int(tail) > 0 and size > 0
    else:
        first, last = int(start), min(int(end or size), size - 1)
        satisfiable = first < size
    if not satisfiable:
        raise _refused(operation, "InvalidRange")
    return first, last


def _entry(key: str, found: Object) -> dict[str, Any]:
    return {
        "Key": key,
        "ETag": found.etag,
        "LastModified": found.modified,
        "Size": len(found.content),
        "StorageClass": "STANDARD",
    }


def _refused(operation: str, code: str) -> ClientError:
    """Return an error; the reply to a HEAD has no body, only the status."""
    status = _STATUS[code]
    said = str(status) if operation == "head_object" else code
    metadata = {"HTTPStatusCode": status, "RetryAttempts": 0}
    return error(operation, said, code, ResponseMetadata=metadata)


# ── body of an object, with aiobotocore's methods ─────────────────────────────


class Response:
    """The open body, which is read as a whole."""

    def __init__(self, content: bytes) -> None:
        self._rest = memoryview(content)

    async def read(self) -> bytes:
        """Return the remaining bytes."""
        return self.take(len(self._rest))

    @property
    def rest(self) -> bytes:
        """The remaining bytes, without consuming them."""
        return bytes(self._rest)

    def take(self, most: int) -> bytes:
        """Return the next bytes."""
        block, self._rest = self._rest[:most], self._rest[most:]
        return bytes(block)


class Body:
    """Bytes that are read once, from their beginning."""

    def __init__(self, content: bytes) -> None:
        self._response = Response(content)

    async def __aenter__(self) -> Response:
        return self._response

    async def __aexit__(self, *_: object) -> None:
        self._response = Response(b"")

    @property
    def content(self) -> bytes:
        """The remaining bytes, for a server that sends them."""
        return self._response.rest

    async def read(self, amt: int | None = None) -> bytes:
        """Return the next bytes, or all remaining ones."""
        whole = amt is None or amt < 0
        return await self._response.read() if whole else self._response.take(amt or 0)

    async def iter_lines(
        self, chunk_size: int = 1024, *, keepends: bool = False
    ) -> AsyncIterator[bytes]:
        """Yield the lines that are left, split where `bytes.splitlines` does."""
        pending = b""
        while block := await self.read(chunk_size):
            *lines, pending = (pending + block).splitlines(keepends=True)
            for line in lines:
                yield line if keepends else line.rstrip(b"\r\n")
        for line in pending.splitlines(keepends=keepends):
            yield line
