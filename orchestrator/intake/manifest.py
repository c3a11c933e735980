"""Stream a JSONL manifest, one chunk per line, from a file, a stream or S3."""

from __future__ import annotations

import asyncio
import codecs
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from orchestrator.intake.chunk import ChunkInput, SourceLocation, chunk_input
from orchestrator.intake.complaint import describe_payload_error
from orchestrator.intake.limits import KIB, Limits
from orchestrator.intake.lines import LineSplitter
from piecework.errors import PieceworkError, UsageError
from piecework.pipeline import Pipeline
from piecework.strict_json import Bounds, read_json

SUFFIXES = (".jsonl", ".ndjson")

BLOCK = 256 * KIB

# Unsupported encodings of some shells and data stores, by their first bytes.
UNSUPPORTED_ENCODINGS = (
    (codecs.BOM_UTF16_LE, "is UTF-16 text", "Save it as UTF-8."),
    (codecs.BOM_UTF16_BE, "is UTF-16 text", "Save it as UTF-8."),
    (b"\x1f\x8b", "is packed by gzip", "Unpack it first: `gunzip -c`."),
)


def is_manifest(name: str) -> bool:
    """Return whether the suffix is that of a manifest."""
    return PurePosixPath(name).suffix.lower() in SUFFIXES


async def manifest_chunks(
    blocks: AsyncGenerator[bytes, None], origin: str, pipeline: Pipeline, limits: Limits
) -> AsyncGenerator[ChunkInput, None]:
    """Yield a chunk for each line that is not blank.

    Raises:
        UsageError: `input.manifest.invalid_line` with line and fields,
            `input.manifest.empty`, `input.manifest.too_long_line`.
    """
    empty = True
    async with aclosing(_lines(blocks, origin, limits)) as lines:
        async for number, line in lines:
            empty = False
            yield _chunk(line, number, origin, pipeline, limits)
    if empty:
        raise UsageError(
            f"The manifest {origin} contains no chunk.",
            code="input.manifest.empty",
            next_step="Write one chunk per line, as a JSON object.",
            origin=origin,
        )


async def _lines(
    blocks: AsyncGenerator[bytes, None], origin: str, limits: Limits
) -> AsyncGenerator[tuple[int, bytes], None]:
    splitter = LineSplitter(origin, limits.line_bytes)
    started = False
    async with aclosing(blocks):
        async for block in blocks:
            if not started:
                _refuse_unsupported_encoding(block, origin)
            started = True
            for line in splitter.feed(block):
                if not _is_blank(line):
                    yield splitter.number, line
    for line in splitter.close():
        if not _is_blank(line):
            yield splitter.number, line


def _refuse_unsupported_encoding(first: bytes, origin: str) -> None:
    """Refuse UTF-16 and gzip by their first bytes, with a clear message."""
    for mark, kind, step in UNSUPPORTED_ENCODINGS:
        if first.startswith(mark):
            raise UsageError(
                f"{origin} {kind}; a manifest is UTF-8.",
                code="input.file.unreadable",
                next_step=step,
                origin=origin,
            )


def _is_blank(line: bytes) -> bool:
    return not line.removeprefix(codecs.BOM_UTF8).strip()


def _chunk(
    line: bytes, number: int, origin: str, pipeline: Pipeline, limits: Limits
) -> ChunkInput:
    if number == 1:
        line = line.removeprefix(codecs.BOM_UTF8)
    try:
        payload = pipeline.payload.model_validate_json(line)
        read_json(line, Bounds(limits.line_bytes))
    except PieceworkError:
        raise
    except Exception as error:  # noqa: BLE001 -- a validator may raise anything
        raise UsageError(
            f"Line {number} of {origin} is not a {pipeline.payload.__name__}: "
            f"{describe_payload_error(error)}.",
            code="input.manifest.invalid_line",
            next_step=f"Correct line {number}, then submit again; no job was made.",
            origin=origin,
            line=number,
        ) from None
    location = SourceLocation(origin, f"line {number}", label=f"line {number}")
    return chunk_input(payload, location, pipeline, limits)


async def open_blocks(path: Path) -> AsyncGenerator[bytes, None]:
    """Yield the bytes of a file, then close it."""
    try:
        stream = await asyncio.to_thread(path.open, "rb")
    except OSError as error:
        raise _unreadable(str(path), error) from error
    with stream:
        async with aclosing(stream_blocks(stream, str(path))) as blocks:
            async for block in blocks:
                yield block


async def stream_blocks(stream: BinaryIO, origin: str) -> AsyncGenerator[bytes, None]:
    """Yield the bytes of a stream, read in a thread to keep the event loop free."""
    try:
        while block := await asyncio.to_thread(stream.read, BLOCK):
            yield block
    except OSError as error:
        raise _unreadable(origin, error) from error


def _unreadable(origin: str, error: OSError) -> UsageError:
    return UsageError(
        f"{origin} cannot be read: {error.strerror or type(error).__name__}.",
        code="input.file.unreadable",
        next_step="Check its permissions, and that its disk is available.",
        origin=origin,
    )
