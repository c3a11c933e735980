"""Split a document with the pipeline's function, in a thread."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import AsyncGenerator, Iterator
from itertools import islice
from pathlib import Path

from orchestrator.intake.chunk import (
    LABEL_LENGTH,
    ChunkInput,
    SourceLocation,
    chunk_input,
)
from orchestrator.intake.limits import Limits
from piecework.errors import PieceworkError, UsageError
from piecework.pipeline import Document, Pipeline

# Large enough to make the switch to the thread cheap, small enough for memory.
BATCH = 64


async def split_chunks(
    document: Document, pipeline: Pipeline, limits: Limits
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
            next_step="Add a split function to the pipeline, or submit a manifest.",
            file=name,
        )


def _chunks(
    document: Document, pipeline: Pipeline, limits: Limits
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
        # The exception's text may quote the document, so only its line is named. The
        # exception itself stays available as the cause.
        frame = traceback.extract_tb(error.__traceback__)[-1]
        raise UsageError(
            f"The split of pipeline {pipeline.name} raised {type(error).__name__} "
            f"on {document.name} ({Path(frame.filename).name}:{frame.lineno}).",
            code="input.split.failed",
            next_step="Correct the split function; it must accept any document.",
            file=document.name,
        ) from error
