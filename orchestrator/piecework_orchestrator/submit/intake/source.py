"""Read any source as chunk inputs, one by one, in a fixed order.

Memory use does not grow with the size of the job. Reading raises for any invalid
input. The submitter reads to the end before it creates a job, so invalid input never
leaves an incomplete job.
"""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from piecework import telemetry
from piecework.domain.chunk_input import ChunkInput
from piecework.errors import UsageError
from piecework.pipelines import Pipeline
from piecework.telemetry.emit import quiet_log
from piecework_orchestrator.submit.intake.documents import (
    document_chunks,
    is_document,
    require_split,
)
from piecework_orchestrator.submit.intake.json_lines import (
    SCHEME,
    S3Reader,
    is_json_lines,
    json_line_chunks,
    object_blocks,
    object_location,
    open_blocks,
    stream_blocks,
)
from piecework_orchestrator.submit.intake.limits import (
    DEFAULT_INTAKE_LIMITS,
    IntakeLimits,
    printable_name,
)
from piecework_orchestrator.submit.intake.on_invalid import OnInvalid
from piecework_orchestrator.submit.intake.refusals import Refusals
from piecework_orchestrator.submit.intake.tables import is_table, table_chunks

STDIN = "-"


async def chunk_inputs(
    source: str,
    pipeline: Pipeline,
    *,
    limits: IntakeLimits = DEFAULT_INTAKE_LIMITS,
    s3: S3Reader | None = None,
    stdin: BinaryIO | None = None,
    refusals: Refusals | None = None,
) -> AsyncGenerator[ChunkInput, None]:
    """Yield the validated chunks of a document, directory or file of rows.

    Args:
        source: A path, `-` for JSON lines on standard input, or `s3://bucket/key`.
        pipeline: Defines the payload type, the split of documents and the labels.
        limits: The limits of a submit.
        s3: An S3 client, required for sources in S3.
        stdin: The stream for `-`; the default is the process's standard input.
        refusals: What happens to rows that are refused; by default the input is
            refused. A document has no rows: it is refused as a whole.

    Raises:
        UsageError: `input.…`: the input is invalid or exceeds a limit.
        UnreachableError: `input.s3.unreachable`.
    """
    count, refused = 0, refusals or Refusals()
    opened = _open(source, pipeline, limits, s3, stdin, refused)
    async with aclosing(opened) as chunks:
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
    limits: IntakeLimits,
    s3: S3Reader | None,
    stdin: BinaryIO | None,
    refusals: Refusals,
) -> AsyncGenerator[ChunkInput, None]:
    """Return the reader for the kind of source, without reading yet."""
    if source == STDIN:
        blocks = stream_blocks(stdin or _stdin(), "standard input")
        name = "standard input"
        return json_line_chunks(blocks, name, pipeline, limits, refusals)
    if source.startswith(SCHEME):
        if not is_table(source):
            blocks = object_blocks(source, s3)
            chunks = json_line_chunks(blocks, source, pipeline, limits, refusals)
        else:
            chunks = object_table_chunks(source, s3, pipeline, limits, refusals)
        return chunks
    path = Path(source)
    if _is_directory(path):
        require_rows(source, refusals)
        return directory_chunks(path, pipeline, limits)
    if is_json_lines(path.name):
        blocks = open_blocks(path)
        return json_line_chunks(blocks, source, pipeline, limits, refusals)
    if is_table(path.name):
        return table_chunks(path, source, pipeline, limits, refusals)
    require_rows(source, refusals)
    name = printable_name(path.name)
    return document_chunks(_without_links(path), name, pipeline, limits)


def require_source(source: str) -> None:
    """Refuse the name of a source that cannot be read, without opening it.

    Raises:
        UsageError: `input.source.not_found`, `input.file.unsupported`.
    """
    if source.startswith(SCHEME):
        object_location(source)
    elif source != STDIN:
        _is_directory(Path(source))


def require_rows(source: str, refusals: Refusals) -> None:
    """Refuse to leave out a part of a document: it has no rows.

    Raises:
        UsageError: `cli.usage.invalid`.
    """
    if refusals.action is not OnInvalid.REFUSE:
        message = f"{source} has no rows to leave out: it is not a table."
        step = f"Submit it without `--invalid {refusals.action}`."
        raise UsageError(message, next_step=step)


async def object_table_chunks(
    source: str,
    s3: S3Reader | None,
    pipeline: Pipeline,
    limits: IntakeLimits,
    refusals: Refusals,
) -> AsyncGenerator[ChunkInput, None]:
    """Yield the chunks of a table in S3, after copying it to this disk.

    Parquet is read from its end, and a header must be whole.
    """
    suffix = PurePosixPath(source).suffix.lower()
    with tempfile.NamedTemporaryFile(suffix=suffix) as copy:
        async with aclosing(object_blocks(source, s3)) as blocks:
            async for block in blocks:
                copy.write(block)
        copy.flush()
        rows = table_chunks(Path(copy.name), source, pipeline, limits, refusals)
        async with aclosing(rows) as chunks:
            async for chunk in chunks:
                yield chunk


def _stdin() -> BinaryIO:
    """Return the process's standard input; raise if it is closed."""
    if sys.stdin is None:
        raise UsageError(
            "Standard input is closed.",
            code="input.file.unreadable",
            next_step="Pipe JSON lines into the command, or name a file.",
        )
    return sys.stdin.buffer


def _is_directory(path: Path) -> bool:
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        raise UsageError(
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


# ── read every document below a directory ─────────────────────────────────────

# Prefixes of hidden files, and of Word's lock files beside an open document.
HIDDEN = (".", "~$")

MAX_NAMED_FILES = 10


async def directory_chunks(
    root: Path, pipeline: Pipeline, limits: IntakeLimits
) -> AsyncGenerator[ChunkInput, None]:
    """Yield the chunks of each document; name skipped files in a warning.

    A link that leads out of the directory is skipped, too. The directory may come from
    a stranger, and the link may lead to a file of the user.

    Raises:
        UsageError: `input.directory.empty`, or the error of a document that is refused.
    """
    require_split(pipeline, str(root))
    read, skipped, names = 0, 0, list[str]()
    for path, target in _documents(root):
        name = printable_name(path.relative_to(root).as_posix())
        if target is None:
            skipped += 1
            names += [name] if len(names) < MAX_NAMED_FILES else []
            continue
        read += 1
        async with aclosing(document_chunks(target, name, pipeline, limits)) as chunks:
            async for chunk in chunks:
                yield chunk
    if skipped:
        telemetry.emit(
            quiet_log(),
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


def files_of(source: str) -> Iterator[Path]:
    """Yield the files that a source on this disk consists of, in a fixed order.

    Raises:
        UsageError: `input.source.not_found`, `input.file.unreadable`.
    """
    root = Path(source)
    if not _is_directory(root):
        yield root
        return
    yield from (target for _, target in _documents(root) if target is not None)


def _documents(root: Path) -> Iterator[tuple[Path, Path | None]]:
    """Yield each file below a directory, and where its links lead.

    None stands for a file that is skipped: no document, or its link leads out.
    """
    inside = _without_links(root)
    for path in _files(root):
        try:
            target = _without_links(path)
        except OSError:  # its link leads where this user may not look
            yield path, None
            continue
        leads_out = not target.is_relative_to(inside)
        skipped = leads_out or not is_document(path) or _is_folder(path)
        yield path, None if skipped else target


def _without_links(path: Path) -> Path:
    """Return the path with all links followed; a link in a loop stays as it is."""
    return Path(os.path.realpath(path))


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
