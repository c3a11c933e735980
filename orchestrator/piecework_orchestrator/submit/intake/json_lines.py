"""Stream JSON lines, one payload per line, from a file, a stream or S3."""

from __future__ import annotations

import asyncio
import codecs
import json
import re
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, Protocol

from botocore.exceptions import BotoCoreError, ClientError

from piecework.aws.objects import is_object_key
from piecework.domain.chunk_input import ChunkInput
from piecework.domain.strict_json import Bounds, JsonRefusedError, read_json
from piecework.errors import PieceworkError, UnreachableError, UsageError
from piecework.pipelines import Pipeline
from piecework_orchestrator.submit.intake.chunk import (
    SourceLocation,
    chunk_input,
    misfit_error,
)
from piecework_orchestrator.submit.intake.columns import (
    require_read,
    require_row_read,
    row_without_blanks,
)
from piecework_orchestrator.submit.intake.limits import KIB, IntakeLimits
from piecework_orchestrator.submit.intake.refusals import Refusals
from piecework_orchestrator.submit.intake.tables import is_table

SUFFIXES = (".jsonl", ".ndjson")

BLOCK = 256 * KIB

# Unsupported encodings of some shells and data stores, by their first bytes.
UNSUPPORTED_ENCODINGS = (
    (codecs.BOM_UTF16_LE, "is UTF-16 text", "Save it as UTF-8."),
    (codecs.BOM_UTF16_BE, "is UTF-16 text", "Save it as UTF-8."),
    (b"\x1f\x8b", "is packed by gzip", "Unpack it first: `gunzip -c`."),
)


def is_json_lines(name: str) -> bool:
    """Return whether the suffix is that of JSON lines."""
    return PurePosixPath(name).suffix.lower() in SUFFIXES


async def json_line_chunks(
    blocks: AsyncGenerator[bytes, None],
    origin: str,
    pipeline: Pipeline,
    limits: IntakeLimits,
    refusals: Refusals,
) -> AsyncGenerator[ChunkInput, None]:
    """Yield a chunk for each line that is not blank.

    Raises:
        UsageError: `input.rows.invalid_line` with line and fields,
            `input.columns.unknown`, `input.rows.empty`, `input.rows.too_long_line`.
    """
    empty = True
    async with aclosing(_lines(blocks, origin, limits)) as lines:
        async for number, line in lines:
            empty = False
            location = SourceLocation(origin, f"line {number}", f"line {number}")
            bare = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
            make = partial(_chunk, bare, number, location, pipeline, limits)
            data = partial(_data, bare, limits)
            if chunk := refusals.checked(make, location, data, limits):
                yield chunk
    if empty:
        raise UsageError(
            f"{origin} contains no line.",
            code="input.rows.empty",
            next_step="Write one chunk per line, as a JSON object.",
            origin=origin,
        )
    refusals.end(origin)


async def _lines(
    blocks: AsyncGenerator[bytes, None], origin: str, limits: IntakeLimits
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
                f"{origin} {kind}; JSON lines are UTF-8.",
                code="input.file.unreadable",
                next_step=step,
                origin=origin,
            )


def _is_blank(line: bytes) -> bool:
    return not line.removeprefix(codecs.BOM_UTF8).strip()


def _chunk(
    line: bytes,
    number: int,
    location: SourceLocation,
    pipeline: Pipeline,
    limits: IntakeLimits,
) -> ChunkInput:
    """Return the chunk of a line.

    Raises:
        UsageError: The line does not fit the payload, or has keys of no field.
    """
    model = pipeline.payload
    where = f"{location.part.capitalize()} of {location.origin}"
    try:
        given = row = _data(line, limits)
        if isinstance(given, dict):
            row = row_without_blanks(model, given)
            require_read(where, model, row, location.origin, "keys")
        text = line if row is given else json.dumps(row)
        payload = model.model_validate_json(text)
        if not isinstance(given, dict):
            read_json(line, Bounds(limits.line_bytes))  # raises what `_data` leaves
    except PieceworkError:
        raise
    except Exception as error:  # noqa: BLE001 -- a validator may raise anything
        raise misfit_error(model, location, error, line=number) from None
    require_row_read(where, payload, row, location.origin)
    return chunk_input(payload, location, pipeline, limits)


def _data(line: bytes, limits: IntakeLimits) -> Any:
    """Return the value of a line, or its text if it is not JSON."""
    try:
        return read_json(line, Bounds(limits.line_bytes))
    except JsonRefusedError:
        return line.decode(errors="replace")


async def open_blocks(path: Path) -> AsyncGenerator[bytes, None]:
    """Yield the bytes of a file, then close it."""
    try:
        stream = await asyncio.to_thread(path.open, "rb")
    except OSError as error:
        raise unreadable(str(path), error) from error
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
        raise unreadable(origin, error) from error


def unreadable(origin: str, error: OSError) -> UsageError:
    """Return the error of a source that the system does not let us read."""
    message = f"{origin} cannot be read: {error.strerror or type(error).__name__}."
    step = "Check its permissions, and that its disk is available."
    return UsageError(
        message, code="input.file.unreadable", next_step=step, origin=origin
    )


# ── split blocks of bytes into lines ──────────────────────────────────────────


class LineSplitter:
    """Split blocks of bytes at line feeds, wherever the blocks are cut.

    `number` counts lines from one as an editor does, including blank lines.
    """

    def __init__(self, origin: str, limit: int) -> None:
        self._origin = origin
        self._limit = limit
        self._pieces: list[bytes] = []
        self._length = 0
        self.number = 0

    def feed(self, block: bytes) -> Iterator[bytes]:
        """Yield the lines that end within the block."""
        *ended, rest = block.split(b"\n")
        for piece in ended:
            self._append(piece)
            yield self._take_line()
        self._append(rest)

    def close(self) -> Iterator[bytes]:
        """Yield the last line if it has no line feed."""
        if self._length:
            yield self._take_line()

    def _append(self, piece: bytes) -> None:
        # A list of pieces, because joining at each block is quadratic in a long line.
        self._pieces.append(piece)
        self._length += len(piece)
        if self._length > self._limit:
            raise UsageError(
                f"Line {self.number + 1} of {self._origin} is longer than "
                f"{self._limit:,} bytes.",
                code="input.rows.too_long_line",
                next_step="Write one chunk per line, and large data as a reference.",
                origin=self._origin,
                line=self.number + 1,
            )

    def _take_line(self) -> bytes:
        line = b"".join(self._pieces)
        self._pieces.clear()
        self._length = 0
        self.number += 1
        return line


# ── stream JSON lines from S3 with one GET ────────────────────────────────────

SCHEME = "s3://"

#: AWS's rules for a bucket name; the SDK's own check is switched off.
BUCKET = re.compile(r"[a-z0-9](?!.*\.\.)[a-z0-9.-]{1,61}[a-z0-9]")

ABSENT = frozenset({"NoSuchKey", "NoSuchBucket", "404"})
DENIED = frozenset({"AccessDenied", "AllAccessDisabled", "InvalidAccessKeyId", "403"})


class S3Reader(Protocol):
    """The part of an S3 client that intake uses; a client of aiobotocore has it."""

    async def get_object(self, *, Bucket: str, Key: str) -> Mapping[str, Any]:  # noqa: N803 -- the names of the AWS API
        """Return the object; the caller reads its `Body` in blocks."""


async def object_blocks(
    source: str, s3: S3Reader | None
) -> AsyncGenerator[bytes, None]:
    """Yield the bytes of the object at `s3://bucket/key`.

    Raises:
        UsageError: `input.source.not_found`, `input.file.unsupported`,
            `input.s3.denied`.
        UnreachableError: `input.s3.unreachable`.
    """
    import aiohttp  # the SDK loads it, too

    bucket, key = object_location(source)
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


def object_location(source: str) -> tuple[str, str]:
    """Return bucket and key; not with a URL parser, as keys may contain `?` and `#`.

    Raises:
        UsageError: `input.file.unsupported`.
    """
    bucket, _, key = source.removeprefix(SCHEME).partition("/")
    readable = is_json_lines(key) or is_table(key)
    if not (BUCKET.fullmatch(bucket) and readable):
        raise UsageError(
            f"{source} does not name a .jsonl, .csv or .parquet object in S3.",
            code="input.file.unsupported",
            next_step="Name s3://bucket/key of such a file; download documents first.",
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
        return UsageError(
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
