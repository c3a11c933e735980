"""A directory: every document below it, in the order of their paths."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from pathlib import Path

import structlog

from orchestrator.intake.chunk import ChunkInput
from orchestrator.intake.documents import document_chunks, is_document
from orchestrator.intake.limits import Limits
from orchestrator.intake.names import readable
from orchestrator.intake.split import require_split
from piecework import telemetry
from piecework.errors import UsageError
from piecework.pipeline import Pipeline

# Hidden files, and what Word leaves beside a document that is open.
HIDDEN = (".", "~$")

NAMED = 10


async def directory_chunks(
    root: Path, pipeline: Pipeline, limits: Limits
) -> AsyncGenerator[ChunkInput, None]:
    """Yield the chunks of each document; the rest is skipped, named in a warning.

    Raises:
        UsageError: When there is no document, or one of them is refused.
    """
    require_split(pipeline, str(root))
    read, skipped, names = 0, 0, list[str]()
    for path in _files(root):
        name = readable(path.relative_to(root).as_posix())
        if not is_document(path) or _is_folder(path):
            skipped += 1
            names += [name] if len(names) < NAMED else []
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
            f"{root} holds no document that can be read ({skipped} files skipped).",
            code="input.directory.empty",
            next_step="Name a directory with .md, .txt, .docx or .pdf files in it.",
            directory=str(root),
        )


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:
        return False  # reading it says what is wrong


def _files(directory: Path) -> Iterator[Path]:
    """Yield what lies below; links to directories are not followed: they may loop."""
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
