"""Read any source as chunk inputs, one by one, in a fixed order.

Memory use does not grow with the size of the job. Reading raises for any invalid
input. The submitter reads to the end before it creates a job, so invalid input never
leaves an incomplete job.
"""

from __future__ import annotations

import stat
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import BinaryIO

from orchestrator.intake.chunk import ChunkInput
from orchestrator.intake.directory import directory_chunks
from orchestrator.intake.documents import document_chunks
from orchestrator.intake.limits import DEFAULT_LIMITS, Limits
from orchestrator.intake.manifest import (
    is_manifest,
    manifest_chunks,
    open_blocks,
    stream_blocks,
)
from orchestrator.intake.names import printable_name
from orchestrator.intake.s3 import SCHEME, S3Reader, object_blocks
from piecework.errors import NotFoundError, UsageError
from piecework.pipeline import Pipeline

STDIN = "-"


async def chunk_inputs(
    source: str,
    pipeline: Pipeline,
    *,
    limits: Limits = DEFAULT_LIMITS,
    s3: S3Reader | None = None,
    stdin: BinaryIO | None = None,
) -> AsyncGenerator[ChunkInput, None]:
    """Yield the validated chunks of a document, directory or manifest.

    Args:
        source: A path, `-` for a manifest on standard input, or `s3://bucket/key`.
        pipeline: Defines the payload type, the split of documents and the labels.
        limits: Limits on the submission.
        s3: An S3 client, required for sources in S3.
        stdin: The stream for `-`; the default is the process's standard input.

    Raises:
        UsageError: `input.…`: the input is invalid or exceeds a limit.
        NotFoundError: `input.source.not_found`.
        UnreachableError: `input.s3.unreachable`.
    """
    count = 0
    async with aclosing(_open(source, pipeline, limits, s3, stdin)) as chunks:
        async for chunk in chunks:
            count += 1
            if count > limits.chunks:
                raise UsageError(
                    f"{source} contains more than {limits.chunks:,} chunks.",
                    code="input.chunks.too_many",
                    next_step="Submit it in parts, or make the chunks larger.",
                    source=source,
                )
            yield chunk


def _open(
    source: str,
    pipeline: Pipeline,
    limits: Limits,
    s3: S3Reader | None,
    stdin: BinaryIO | None,
) -> AsyncGenerator[ChunkInput, None]:
    """Return the reader for the kind of source, without reading yet."""
    if source == STDIN:
        blocks = stream_blocks(stdin or _stdin(), "standard input")
        return manifest_chunks(blocks, "standard input", pipeline, limits)
    if source.startswith(SCHEME):
        return manifest_chunks(object_blocks(source, s3), source, pipeline, limits)
    path = Path(source)
    if _is_directory(path):
        return directory_chunks(path, pipeline, limits)
    if is_manifest(path.name):
        return manifest_chunks(open_blocks(path), source, pipeline, limits)
    return document_chunks(path, printable_name(path.name), pipeline, limits)


def _stdin() -> BinaryIO:
    """Return the process's standard input; raise if it is closed."""
    if sys.stdin is None:
        raise UsageError(
            "Standard input is closed.",
            code="input.file.unreadable",
            next_step="Pipe a manifest into the command, or name a file.",
        )
    return sys.stdin.buffer


def _is_directory(path: Path) -> bool:
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        raise NotFoundError(
            f"There is no file or directory {path}.",
            code="input.source.not_found",
            next_step="Check the path; it is relative to the working directory.",
            source=str(path),
        ) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not a path"
        raise UsageError(
            f"{str(path)!r} cannot be read: {reason}.",
            code="input.file.unreadable",
            next_step="Check the permissions of the file and of the directories above.",
            source=str(path),
        ) from error
    return stat.S_ISDIR(mode)
