"""Stream a manifest from S3 with one GET, so that all blocks are of one version."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Mapping
from typing import Any, Protocol

import aiohttp
from botocore.exceptions import BotoCoreError, ClientError

from orchestrator.intake.manifest import BLOCK, SUFFIXES, is_manifest
from piecework.errors import (
    NotFoundError,
    PieceworkError,
    UnreachableError,
    UsageError,
)
from piecework.object_keys import is_object_key

SCHEME = "s3://"

#: AWS's rules for a bucket name; the SDK's own check is switched off.
BUCKET = re.compile(r"[a-z0-9](?!.*\.\.)[a-z0-9.-]{1,61}[a-z0-9]")

ABSENT = frozenset({"NoSuchKey", "NoSuchBucket", "404"})
DENIED = frozenset({"AccessDenied", "AllAccessDisabled", "InvalidAccessKeyId", "403"})


class S3Reader(Protocol):
    """The part of an S3 client that intake uses; a client of aioboto3 has it."""

    async def get_object(self, *, Bucket: str, Key: str) -> Mapping[str, Any]:  # noqa: N803 -- the names of the AWS API
        """Return the object; the caller reads its `Body` in blocks."""


async def object_blocks(
    source: str, s3: S3Reader | None
) -> AsyncGenerator[bytes, None]:
    """Yield the bytes of the object at `s3://bucket/key`.

    Raises:
        NotFoundError: `input.source.not_found`.
        UsageError: `input.file.unsupported`, `input.s3.denied`.
        UnreachableError: `input.s3.unreachable`.
    """
    bucket, key = _location(source)
    if s3 is None:
        raise UnreachableError(
            f"{source} cannot be read without an S3 client.",
            code="input.s3.unreachable",
            next_step="Run `piecework doctor`.",
            source=source,
        )
    try:
        reply = await s3.get_object(Bucket=bucket, Key=key)
        # `async with ... as` yields the bare response, which misses a truncated body.
        body = reply["Body"]
        async with body:
            async for block in body.iter_chunks(BLOCK):
                yield block
    except ClientError as error:
        raise _to_piecework_error(source, error) from error
    except (BotoCoreError, aiohttp.ClientError, OSError, TimeoutError) as error:
        raise UnreachableError(
            f"Reading {source} from S3 failed ({type(error).__name__}).",
            code="input.s3.unreachable",
            next_step="Submit again; `piecework doctor` checks the connection to S3.",
            source=source,
        ) from error


def _location(source: str) -> tuple[str, str]:
    """Return bucket and key; not with a URL parser, as keys may contain `?` and `#`."""
    bucket, _, key = source.removeprefix(SCHEME).partition("/")
    if not (BUCKET.fullmatch(bucket) and is_manifest(key)):
        raise UsageError(
            f"{source} does not name a manifest in S3.",
            code="input.file.unsupported",
            next_step=f"Name s3://bucket/key of a file that ends in {SUFFIXES[0]}; "
            "download documents first.",
            source=source,
        )
    if not is_object_key(key):
        raise UsageError(
            f"{source} has a key that proxies or clients may change.",
            code="input.file.unsupported",
            next_step="Copy it to a key without empty parts, `.`, `..` and escapes.",
            source=source,
        )
    return bucket, key


def _to_piecework_error(source: str, error: ClientError) -> PieceworkError:
    code = error.response.get("Error", {}).get("Code", "")
    if code in ABSENT:
        return NotFoundError(
            f"There is no object {source}.",
            code="input.source.not_found",
            next_step="Check bucket and key; keys are case sensitive.",
            source=source,
        )
    if code in DENIED:
        return UsageError(
            f"S3 denied access to {source}.",
            code="input.s3.denied",
            next_step="Allow s3:GetObject on the object, or use other credentials.",
            source=source,
        )
    return UnreachableError(
        f"S3 answered {code} for {source}.",
        code="input.s3.unreachable",
        next_step="Submit again; `piecework doctor` checks the connection to S3.",
        source=source,
    )
