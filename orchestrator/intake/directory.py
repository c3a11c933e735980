"""Read every document below a directory, in the order of paths."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from pathlib import Path

import structlog

from orchestrator.intake.chunk import ChunkInput
from orchestrator.intake.documents import document_chunks, is_document
from orchestrator.intake.limits import Limits
from orchestrator.intake.names import printable_name
from orchestrator.intake.split import require_split
from piecework import telemetry
from piecework.errors import UsageError
from piecework.pipeline import Pipeline

# Prefixes of hidden files, and of Word's lock files beside an open document.
HIDDEN = (".", "~$")

MAX_NAMED_FILES = 10


async def directory_chunks(
    root: Path, pipeline: Pipeline, limits: Limits
) -> AsyncGenerator[ChunkInput, None]:
    """Yield the chunks of each document; name skipped files in a warning.

    Raises:
        UsageError: `input.directory.empty`, or the error of a document that is refused.
    """
    require_split(pipeline, str(root))
    read, skipped, names = 0, 0, list[str]()
    for path in _files(root):
        name = printable_name(path.relative_to(root).as_posix())
        if not is_document(path) or _is_folder(path):
            skipped += 1
            names += [name] if len(names) < MAX_NAMED_FILES else []
            continue
        read += 1
        async with aclosing(document_chunks(path, name, pipeline, limits)) as chunks:
            async for chunk in chunks:
                yield chunk
    if skipped:
        telemetry.emit(
            structlog.get_logger(),
            "input.directory.skipped",
            directory=str(root),
            count=skipped,
            files=names,
        )
    if not read:
        raise UsageError(
            f"{root} contains no readable document ({skipped} files skipped).",
            code="input.directory.empty",
            next_step="Name a directory with .md, .txt, .docx or .pdf files.",
            directory=str(root),
        )


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:
        return False  # reading the file reports the error


def _files(directory: Path) -> Iterator[Path]:
    """Yield the files below; do not follow links to directories, which may loop."""
    try:
        with os.scandir(directory) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except OSError as error:
        raise UsageError(
            f"The directory {directory} cannot be read: {error.strerror}.",
            code="input.file.unreadable",
            next_step="Check its permissions.",
            directory=str(directory),
        ) from error
    for entry in entries:
        if entry.name.startswith(HIDDEN):
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from _files(Path(entry.path))
        else:
            yield Path(entry.path)
