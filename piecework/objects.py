"""What is too large for a row: payloads, manifests, results, certificates in S3."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from piecework import keys
from piecework.errors import PermanentError, StateError
from piecework.store.outage import reaching

if TYPE_CHECKING:
    from types_aiobotocore_s3.client import S3Client

#: Values above this many bytes go to S3. An item may hold 400 KB, and every write of
#: it is billed by size.
INLINE_LIMIT = 64 * 1024


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

    async def get(self, key: str, *, start: int = 0, length: int = 0) -> bytes:
        """Read an object, or `length` bytes of it (fewer at its end).

        Raises:
            StateError: `runtime.object.missing`.
        """
        request: dict[str, Any] = {"Bucket": self.bucket, "Key": key}
        if length:
            request["Range"] = f"bytes={start}-{start + length - 1}"
        with reaching(self.bucket):
            try:
                reply = await self.client.get_object(**request)
            except ClientError as error:
                if error.response["Error"]["Code"] not in {"NoSuchKey", "404"}:
                    raise
                message = f"The object {key} is gone."
                raise StateError(message, code="runtime.object.missing") from error
            async with reply["Body"] as body:
                content: bytes = await body.read()
                return content

    async def lines(self, key: str) -> AsyncIterator[bytes]:
        """Yield the lines of an object without holding it."""
        with reaching(self.bucket):
            reply = await self.client.get_object(Bucket=self.bucket, Key=key)
            body = reply["Body"]
            async with body:
                async for line in body.iter_lines():
                    if line:
                        yield line

    async def names(self, prefix: str) -> AsyncIterator[str]:
        """Yield the keys that begin so."""
        pages = self.client.get_paginator("list_objects_v2")
        with reaching(self.bucket):
            async for page in pages.paginate(Bucket=self.bucket, Prefix=prefix):
                for found in page.get("Contents", []):
                    yield found["Key"]

    async def stow(self, text: str, stem: str) -> dict[str, str]:
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

    async def fetch(self, item: Mapping[str, Any]) -> str:
        """Return the value that `stow` put into a row.

        Raises:
            PermanentError: `runtime.payload.corrupt`.
        """
        if "value_at" not in item:
            return str(item["value"])
        content = await self.get(item["value_at"])
        verify(content, item["value_sha256"], item["value_at"])
        return content.decode()


def verify(content: bytes, sha256: str, what: str) -> None:
    """Refuse bytes that are not those that were written.

    Raises:
        PermanentError: `runtime.payload.corrupt`.
    """
    if keys.sha256(content) != sha256:
        message = f"{what} is not what was submitted: its SHA-256 differs."
        raise PermanentError(message, code="runtime.payload.corrupt")
