"""Write a file to a path or to S3, completely or not at all."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Final, cast

from piecework.aws.objects import Objects, is_object_key
from piecework.errors import StoreError, UsageError
from piecework.runtime import Runtime
from piecework_orchestrator.results.files import whole_file
from piecework_orchestrator.submit.intake.json_lines import BUCKET, SCHEME

#: Bytes of an object that one request writes, as S3 limits them.
MAX_OBJECT: Final = 5 * 1024**3
#: The answers of S3 that a repeated request does not change.
REFUSED: Final = frozenset({"aws.access.denied", "aws.resource.not_found"})
MEDIA_TYPES: Final = {
    ".jsonl": "application/jsonl",
    ".csv": "text/csv",
    ".parquet": "application/vnd.apache.parquet",
}


@asynccontextmanager
async def open_destination(rt: Runtime, to: str | Path) -> AsyncIterator[BinaryIO]:
    """Open a path, or an object `s3://bucket/key`, which is written at the end.

    Raises:
        UsageError: `cli.usage.invalid`: it is neither, or cannot be written;
            `aws.resource.not_found`, `aws.access.denied`: S3 refuses the object.
        StoreError: S3 cannot be reached.
    """
    if not is_object(to):
        with whole_file(Path(to)) as file:
            yield file
        return
    bucket, key = object_place(str(to))
    with tempfile.TemporaryFile() as spool:
        yield cast("BinaryIO", spool)
        if spool.seek(0, 2) > MAX_OBJECT:
            message = f"The content of {to} is larger than {MAX_OBJECT:,} bytes."
            step = "Write it to a path, then copy it: `aws s3 cp FILE s3://…`"
            raise UsageError(message, next_step=step)
        spool.seek(0)
        kind = MEDIA_TYPES.get(PurePosixPath(key).suffix.lower(), "")
        target = Objects(rt.objects.client, bucket)
        try:
            await target.put(key, spool, kind or "binary/octet-stream")
        except StoreError as error:
            if error.code not in REFUSED:
                raise
            step = "Check the bucket's name and region, and allow s3:PutObject on it."
            message = f"{to} cannot be written: {error.message}"
            raise UsageError(message, code=error.code, next_step=step) from error


def is_object(to: str | Path) -> bool:
    """Return whether a destination is an object in S3."""
    return isinstance(to, str) and to.startswith(SCHEME)


def object_place(to: str) -> tuple[str, str]:
    """Return bucket and key of `s3://bucket/key`.

    Raises:
        UsageError: `cli.usage.invalid`.
    """
    bucket, _, key = to.removeprefix(SCHEME).partition("/")
    if BUCKET.fullmatch(bucket) and is_object_key(key):
        return bucket, key
    message = f"{to} does not name an object in S3."
    raise UsageError(message, next_step="Write it as s3://bucket/folder/file.parquet.")
