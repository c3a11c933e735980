"""Read a document as plain text, by its suffix; the pipeline then splits it."""

from __future__ import annotations

import asyncio
import codecs
import os
import stat
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import TypeAlias

from piecework.domain.chunk_input import LABEL_LENGTH, ChunkInput
from piecework.errors import PieceworkError, UsageError
from piecework.errors.location import raised_text
from piecework.pipelines import Document, Pipeline
from piecework_orchestrator.submit.intake import pdf, word
from piecework_orchestrator.submit.intake.chunk import SourceLocation, chunk_input
from piecework_orchestrator.submit.intake.limits import IntakeLimits

# ── split a document with the pipeline's function, in a thread ────────────────

# Large enough to make the switch to the thread cheap, small enough for memory.
BATCH = 64


async def split_chunks(
    document: Document, pipeline: Pipeline, limits: IntakeLimits
) -> AsyncGenerator[ChunkInput, None]:
    """Yield the chunks of a document.

    Raises:
        UsageError: `input.split.none`, `input.split.failed`, `input.payload.invalid`.
    """
    chunks = _chunks(document, pipeline, limits)
    empty = True
    while batch := await asyncio.to_thread(lambda: list(islice(chunks, BATCH))):
        empty = False
        for chunk in batch:
            yield chunk
    if empty:
        raise UsageError(
            f"Pipeline {pipeline.name} found no chunk in {document.name}.",
            code="input.split.none",
            next_step="Check that the document is meant for this pipeline.",
            file=document.name,
        )


def require_split(pipeline: Pipeline, name: str) -> None:
    """Raise if the pipeline has no split function.

    Raises:
        UsageError: `input.split.missing`.
    """
    if pipeline.split is None:
        raise UsageError(
            f"Pipeline {pipeline.name} has no split function to split {name}.",
            code="input.split.missing",
            next_step="Add a split function to the pipeline, or submit a .jsonl file.",
            file=name,
        )


def _chunks(
    document: Document, pipeline: Pipeline, limits: IntakeLimits
) -> Iterator[ChunkInput]:
    for number, payload in enumerate(_payloads(document, pipeline), start=1):
        # A long name is cut, because the number distinguishes the chunks.
        suffix = f" #{number}"
        label = document.name[: LABEL_LENGTH - len(suffix)] + suffix
        location = SourceLocation(document.name, f"chunk {number}", label)
        yield chunk_input(payload, location, pipeline, limits)


def _payloads(document: Document, pipeline: Pipeline) -> Iterator[object]:
    require_split(pipeline, document.name)
    assert pipeline.split is not None  # noqa: S101 -- for the type checker
    try:
        yield from pipeline.split(document)
    except PieceworkError:
        raise
    except Exception as error:
        raise UsageError(
            f"The split of pipeline {pipeline.name} {raised_text(error)} on "
            f"{document.name}.",
            code="input.split.failed",
            next_step="Correct the split function; it must accept any document.",
            file=document.name,
        ) from error


# ── decode plain text and markdown by the byte order mark ─────────────────────

# The order matters: the mark of UTF-32 starts with the mark of UTF-16.
BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


def read(data: bytes, name: str, _: IntakeLimits) -> str:
    """Return the text with line feeds at the ends of lines.

    Raises:
        UsageError: `input.file.unreadable`, with the offset of the first invalid byte.
    """
    mark, encoding = next(
        (known for known in BYTE_ORDER_MARKS if data.startswith(known[0])),
        (b"", "utf-8"),
    )
    try:
        text = data[len(mark) :].decode(encoding)
    except UnicodeDecodeError as error:
        raise _undecodable(name, encoding, len(mark) + error.start) from error
    if "\0" in text:
        # Prose never contains it; UTF-16 without a mark has it in every other byte.
        before = text[: text.index("\0")].encode(encoding)
        raise _undecodable(name, encoding, len(mark) + len(before))
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _undecodable(name: str, encoding: str, offset: int) -> UsageError:
    return UsageError(
        f"{name} is not {encoding.upper()} text: see the byte at offset {offset:,}.",
        code="input.file.unreadable",
        next_step="Save it as UTF-8.",
        file=name,
        offset=offset,
    )


#: Takes the bytes, the name for error messages, and the limits; returns the text.
Reader: TypeAlias = Callable[[bytes, str, IntakeLimits], str]

READERS: Mapping[str, Reader] = {
    ".docx": word.read,
    ".md": read,
    ".pdf": pdf.read,
    ".txt": read,
}

# The next step for common suffixes that cannot be read.
CONVERSIONS = {
    ".doc": "Save it as .docx.",
    ".docm": "Save it as .docx.",
    ".odt": "Save it as .docx.",
    ".rtf": "Save it as .docx.",
    ".markdown": "Rename it to .md.",
    ".json": "Write one chunk per line, as .jsonl.",
    ".xls": "Save it as .csv.",
    ".xlsx": "Save it as .csv.",
}


async def document_chunks(
    path: Path, name: str, pipeline: Pipeline, limits: IntakeLimits
) -> AsyncGenerator[ChunkInput, None]:
    """Yield the chunks of one document."""
    require_split(pipeline, name)
    document = await asyncio.to_thread(read_document, path, name, limits)
    async for chunk in split_chunks(document, pipeline, limits):
        yield chunk


def is_document(path: Path) -> bool:
    """Return whether the suffix is that of a document."""
    return path.suffix.lower() in READERS


def read_document(path: Path, name: str, limits: IntakeLimits) -> Document:
    """Read one file; the path must contain no link.

    Raises:
        UsageError: `input.file.unsupported`, `input.file.unreadable`,
            `input.file.encrypted`, `input.file.empty`, `input.file.too_large`.
    """
    suffix = Path(name).suffix.lower()  # of the link, if the file was named by one
    if suffix not in READERS:
        supported = ", ".join(sorted(READERS))
        raise UsageError(
            f"{name} has an unsupported type; supported are {supported}, and for rows "
            ".csv, .jsonl, .ndjson and .parquet.",
            code="input.file.unsupported",
            next_step=CONVERSIONS.get(suffix, "Convert it to a supported type."),
            file=name,
        )
    text_content = READERS[suffix](_contents(path, name, limits), name, limits)
    if not text_content.strip():
        raise _empty(name)
    return Document(name, text_content)


def _contents(path: Path, name: str, limits: IntakeLimits) -> bytes:
    # The caller has followed all links. One that appears now may lead elsewhere; and
    # without O_NONBLOCK, opening a pipe would wait for its writer.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(path, flags), "rb") as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise _unreadable(name, "it is not a regular file")
            # One byte above the limit, because a file can grow after a size check.
            data = stream.read(limits.document_bytes + 1)
    except OSError as error:
        raise _unreadable(name, error.strerror or type(error).__name__) from error
    if len(data) > limits.document_bytes:
        message = f"{name} is larger than {limits.document_bytes:,} bytes."
        step = "Divide it, or write a .jsonl file with one payload per line."
        code = "input.file.too_large"
        raise UsageError(message, code=code, next_step=step, file=name)
    if not data:
        raise _empty(name)
    return data


def _empty(name: str) -> UsageError:
    message = f"{name} contains no text."
    step = "Check that the file was saved and copied completely."
    return UsageError(message, code="input.file.empty", next_step=step, file=name)


def _unreadable(name: str, reason: str) -> UsageError:
    message = f"{name} cannot be read: {reason}."
    step = "Check that it is a regular file, and its permissions."
    return UsageError(message, code="input.file.unreadable", next_step=step, file=name)
