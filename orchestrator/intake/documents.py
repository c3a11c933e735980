"""Read a document as plain text, by its suffix; the pipeline then splits it."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import AsyncGenerator, Callable, Mapping
from pathlib import Path
from typing import TypeAlias

from orchestrator.intake import pdf, text, word
from orchestrator.intake.chunk import ChunkInput
from orchestrator.intake.limits import Limits
from orchestrator.intake.split import require_split, split_chunks
from piecework.errors import UsageError
from piecework.pipeline import Document, Pipeline

#: Takes the bytes, the name for error messages, and the limits; returns the text.
Reader: TypeAlias = Callable[[bytes, str, Limits], str]

READERS: Mapping[str, Reader] = {
    ".docx": word.read,
    ".md": text.read,
    ".pdf": pdf.read,
    ".txt": text.read,
}

# The next step for common suffixes that cannot be read.
CONVERSIONS = {
    ".doc": "Save it as .docx.",
    ".docm": "Save it as .docx.",
    ".odt": "Save it as .docx.",
    ".rtf": "Save it as .docx.",
    ".markdown": "Rename it to .md.",
    ".json": "Write one chunk per line, as .jsonl.",
    ".csv": "Write one chunk per line, as .jsonl.",
}


async def document_chunks(
    path: Path, name: str, pipeline: Pipeline, limits: Limits
) -> AsyncGenerator[ChunkInput, None]:
    """Yield the chunks of one document."""
    require_split(pipeline, name)
    document = await asyncio.to_thread(read_document, path, name, limits)
    async for chunk in split_chunks(document, pipeline, limits):
        yield chunk


def is_document(path: Path) -> bool:
    """Return whether the suffix is that of a document."""
    return path.suffix.lower() in READERS


def read_document(path: Path, name: str, limits: Limits) -> Document:
    """Read one file.

    Raises:
        UsageError: `input.file.unsupported`, `input.file.unreadable`,
            `input.file.encrypted`, `input.file.empty`, `input.file.too_large`.
    """
    suffix = path.suffix.lower()
    if suffix not in READERS:
        supported = ", ".join(sorted(READERS))
        raise UsageError(
            f"{name} has an unsupported type; supported are {supported} and .jsonl.",
            code="input.file.unsupported",
            next_step=CONVERSIONS.get(suffix, "Convert it to a supported type."),
            file=name,
        )
    text_content = READERS[suffix](_contents(path, name, limits), name, limits)
    if not text_content.strip():
        raise _empty(name)
    return Document(name, text_content)


def _contents(path: Path, name: str, limits: Limits) -> bytes:
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise _unreadable(name, "it is not a regular file")
        with path.open("rb") as stream:
            # One byte above the limit, because a file can grow after a size check.
            data = stream.read(limits.document_bytes + 1)
    except OSError as error:
        raise _unreadable(name, error.strerror or type(error).__name__) from error
    if len(data) > limits.document_bytes:
        raise UsageError(
            f"{name} is larger than {limits.document_bytes:,} bytes.",
            code="input.file.too_large",
            next_step="Divide it, or write a manifest with one chunk per line.",
            file=name,
        )
    if not data:
        raise _empty(name)
    return data


def _empty(name: str) -> UsageError:
    return UsageError(
        f"{name} contains no text.",
        code="input.file.empty",
        next_step="Check that the file was saved and copied completely.",
        file=name,
    )


def _unreadable(name: str, reason: str) -> UsageError:
    return UsageError(
        f"{name} cannot be read: {reason}.",
        code="input.file.unreadable",
        next_step="Check that it is a regular file, and its permissions.",
        file=name,
    )
