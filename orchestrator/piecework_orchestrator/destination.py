"""Write a file to a path or to S3, completely or not at all."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Final, cast

from piecework.aws.objects import Objects, is_object_key
from piecework.errors import UsageError
from piecework.runtime import Runtime
from piecework_orchestrator.files import whole_file
from piecework_orchestrator.intake.json_lines import BUCKET, SCHEME

#: Bytes of an object that one request writes, as S3 limits them.
MAX_OBJECT: Final = 5 * 1024**3
MEDIA_TYPES: Final = {
    ".jsonl": "application/jsonl",
    ".csv": "text/csv",
    ".parquet": "application/vnd.apache.parquet",
}


@asynccontextmanager
async def open_destination(rt: Runtime, to: str | Path) -> AsyncIterator[BinaryIO]:
    """Open a path, or an object `s3://bucket/key`, which is written at the end.

    Raises:
        UsageError: `cli.usage.invalid`: it is neither, or cannot be written.
        StoreError: S3 cannot be reached, or refuses the object.
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
        await target.put(key, spool, kind or "binary/octet-stream")


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
