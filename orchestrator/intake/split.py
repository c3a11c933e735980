"""Splitting: the pipeline's own function cuts a document, beside the event loop."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import AsyncGenerator, Iterator
from itertools import islice
from pathlib import Path

from orchestrator.intake.chunk import LABEL_LENGTH, ChunkInput, Place, chunk_input
from orchestrator.intake.limits import Limits
from piecework.errors import PieceworkError, UsageError
from piecework.pipeline import Document, Pipeline

# Enough to make the hop to the thread cheap, few enough to hold.
BATCH = 64


async def split_chunks(
    document: Document, pipeline: Pipeline, limits: Limits
) -> AsyncGenerator[ChunkInput, None]:
    """Yield the chunks that the pipeline cuts a document into.

    Raises:
        UsageError: When there are none, one is not valid, or the split raised.
    """
    chunks = _chunks(document, pipeline, limits)
    empty = True
    while batch := await asyncio.to_thread(lambda: list(islice(chunks, BATCH))):
        empty = False
        for chunk in batch:
            yield chunk
    if empty:
        raise UsageError(
            f"Pipeline {pipeline.name} finds no chunk in {document.name}.",
            code="input.split.none",
            next_step="Check that this is the right document for this pipeline.",
            file=document.name,
        )


def require_split(pipeline: Pipeline, name: str) -> None:
    """Refuse a document that the pipeline has no way to cut.

    Raises:
        UsageError: `input.split.missing`.
    """
    if pipeline.split is None:
        raise UsageError(
            f"Pipeline {pipeline.name} has no split, so it cannot cut {name}.",
            code="input.split.missing",
            next_step="Give the pipeline a split, or submit a .jsonl manifest.",
            file=name,
        )


def _chunks(
    document: Document, pipeline: Pipeline, limits: Limits
) -> Iterator[ChunkInput]:
    for number, payload in enumerate(_payloads(document, pipeline), start=1):
        # A long name gives way to the number, which tells chunks apart.
        mark = f" #{number}"
        label = document.name[: LABEL_LENGTH - len(mark)] + mark
        place = Place(document.name, f"chunk {number}", label)
        yield chunk_input(payload, place, pipeline, limits)


def _payloads(document: Document, pipeline: Pipeline) -> Iterator[object]:
    require_split(pipeline, document.name)
    assert pipeline.split is not None  # noqa: S101 -- told to the type checker
    try:
        yield from pipeline.split(document)
    except PieceworkError:
        raise
    except Exception as error:
        # Its message may quote the document: where it was raised says enough, and
        # the exception itself stays reachable as the cause.
        spot = traceback.extract_tb(error.__traceback__)[-1]
        raise UsageError(
            f"The split of pipeline {pipeline.name} raised {type(error).__name__} "
            f"on {document.name} ({Path(spot.filename).name}:{spot.lineno}).",
            code="input.split.failed",
            next_step="Correct the split; it must take any document it may be given.",
            file=document.name,
        ) from error
