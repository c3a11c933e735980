"""A document: read by its suffix into plain text, then split by the pipeline."""

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

#: Bytes, the name for complaints, and limits; returns the text.
Reader: TypeAlias = Callable[[bytes, str, Limits], str]

READERS: Mapping[str, Reader] = {
    ".docx": word.read,
    ".md": text.read,
    ".pdf": pdf.read,
    ".txt": text.read,
}

# Near misses, and the way out of each.
CONVERSIONS = {
    ".doc": "Save it as .docx.",
    ".docm": "Save it as .docx.",
    ".odt": "Save it as .docx.",
    ".rtf": "Save it as .docx.",
    ".markdown": "Rename it to .md.",
    ".json": "Write one chunk a line, as .jsonl.",
    ".csv": "Write one chunk a line, as .jsonl.",
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
    """Tell by its name whether a file can be read as a document."""
    return path.suffix.lower() in READERS


def read_document(path: Path, name: str, limits: Limits) -> Document:
    """Read one file.

    Raises:
        UsageError: When it is unsupported, unreadable, encrypted, empty or too large.
    """
    suffix = path.suffix.lower()
    if suffix not in READERS:
        supported = ", ".join(sorted(READERS))
        raise UsageError(
            f"{name} is none of the kinds that can be read ({supported}, .jsonl).",
            code="input.file.unsupported",
            next_step=CONVERSIONS.get(suffix, "Convert it to one of them."),
            file=name,
        )
    said = READERS[suffix](_contents(path, name, limits), name, limits)
    if not said.strip():
        raise _empty(name)
    return Document(name, said)


def _contents(path: Path, name: str, limits: Limits) -> bytes:
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise _unreadable(name, "it is not a regular file")
        with path.open("rb") as stream:
            # One byte more than may be, as a file can grow after its size was asked.
            data = stream.read(limits.document_bytes + 1)
    except OSError as error:
        raise _unreadable(name, error.strerror or type(error).__name__) from error
    if len(data) > limits.document_bytes:
        raise UsageError(
            f"{name} is larger than {limits.document_bytes:,} bytes.",
            code="input.file.too_large",
            next_step="Divide it, or write a manifest with one chunk a line.",
            file=name,
        )
    if not data:
        raise _empty(name)
    return data


def _empty(name: str) -> UsageError:
    return UsageError(
        f"{name} holds no text.",
        code="input.file.empty",
        next_step="Check that it was saved and copied whole.",
        file=name,
    )


def _unreadable(name: str, why: str) -> UsageError:
    return UsageError(
        f"{name} cannot be read: {why}.",
        code="input.file.unreadable",
        next_step="Check what it is, and its permissions.",
        file=name,
    )
