"""Intake: whatever was named becomes chunk inputs, one by one, in a fixed order.

Memory stays flat in the size of the job. Everything wrong with the input raises here,
while it is read: the submitter reads to the end before it creates a job, so bad
input never leaves half a job behind.
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
from orchestrator.intake.names import readable
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
    """Yield the chunks of a document, directory or manifest, validated.

    Args:
        source: A path, `-` for a manifest on standard input, or `s3://bucket/key`.
        pipeline: Says what a payload is, how a document is split, and the labels.
        limits: How much is taken; more is refused.
        s3: An S3 client, for sources in S3.
        stdin: Read for `-`; default: the process's own.

    Raises:
        UsageError: `input.…`, when the input cannot be taken as it is.
        NotFoundError: `input.source.not_found`.
        UnreachableError: `input.s3.unreachable`.
    """
    count = 0
    async with aclosing(_open(source, pipeline, limits, s3, stdin)) as chunks:
        async for chunk in chunks:
            count += 1
            if count > limits.chunks:
                raise UsageError(
                    f"{source} holds more than {limits.chunks:,} chunks.",
                    code="input.chunks.too_many",
                    next_step="Submit it in parts, or make chunks larger.",
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
    """Choose the reader for a source; nothing but its kind is looked at yet."""
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
    return document_chunks(path, readable(path.name), pipeline, limits)


def _stdin() -> BinaryIO:
    """Return the process's own standard input; one that was closed is none."""
    if sys.stdin is None:
        raise UsageError(
            "There is no standard input: it was closed.",
            code="input.file.unreadable",
            next_step="Pipe a manifest in, or name a file.",
        )
    return sys.stdin.buffer


def _is_directory(path: Path) -> bool:
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        raise NotFoundError(
            f"There is no file or directory {path}.",
            code="input.source.not_found",
            next_step="Check the path; it is read from the working directory.",
            source=str(path),
        ) from None
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no path"
        raise UsageError(
            f"{str(path)!r} cannot be read: {why}.",
            code="input.file.unreadable",
            next_step="Check the permissions of the file and of the directories above.",
            source=str(path),
        ) from error
    return stat.S_ISDIR(mode)
