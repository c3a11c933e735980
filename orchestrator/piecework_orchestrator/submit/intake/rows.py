"""Read the rows that a program submits as chunk inputs, one by one."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Mapping

from pydantic import BaseModel

from piecework.domain.payload import describe_payload_error
from piecework.errors import PieceworkError, UsageError
from piecework.pipelines import Pipeline
from piecework_orchestrator.submit.intake.chunk import (
    ChunkInput,
    SourceLocation,
    chunk_input,
)
from piecework_orchestrator.submit.intake.limits import (
    DEFAULT_INTAKE_LIMITS,
    IntakeLimits,
)

ORIGIN = "the rows"


async def row_chunks(
    rows: Iterable[object] | AsyncIterable[object],
    pipeline: Pipeline,
    limits: IntakeLimits = DEFAULT_INTAKE_LIMITS,
) -> AsyncGenerator[ChunkInput, None]:
    """Yield the validated chunk of each row: a payload, or a mapping of its fields.

    Raises:
        UsageError: `input.payload.invalid`, `input.payload.too_large`,
            `input.rows.empty`, `input.chunks.too_many`.
    """
    number = 0
    async for row in each_row(rows):
        number += 1
        if number > limits.chunks:
            raise UsageError(
                f"There are more than {limits.chunks:,} rows.",
                code="input.chunks.too_many",
                next_step="Submit them in parts, or make the chunks larger.",
            )
        yield row_chunk(row, number, pipeline, limits)
    if not number:
        raise UsageError(
            "There is no row to submit.",
            code="input.rows.empty",
            next_step="Submit at least one row.",
        )


async def each_row(
    rows: Iterable[object] | AsyncIterable[object],
) -> AsyncGenerator[object, None]:
    """Yield the rows of either kind of iterable."""
    if isinstance(rows, AsyncIterable):
        async for row in rows:
            yield row
    else:
        for row in rows:
            yield row


def row_chunk(
    row: object, number: int, pipeline: Pipeline, limits: IntakeLimits
) -> ChunkInput:
    """Return the chunk of one row; `number` counts from 1."""
    location = SourceLocation(ORIGIN, f"row {number}", f"row {number}")
    model = pipeline.payload
    if isinstance(row, BaseModel):
        return chunk_input(row, location, pipeline, limits)
    if not isinstance(row, Mapping):
        raise UsageError(
            f"Row {number} is a {type(row).__name__}, not a {model.__name__}.",
            code="input.payload.invalid",
            next_step=f"Pass {model.__name__} objects, or mappings of their fields.",
        )
    try:
        payload = model.model_validate(row)
    except PieceworkError:
        raise
    except Exception as error:  # noqa: BLE001 -- a validator may raise anything
        raise UsageError(
            f"Row {number} is not a {model.__name__}: {describe_payload_error(error)}.",
            code="input.payload.invalid",
            next_step=f"Correct row {number}, then submit again; no job was made.",
        ) from None
    return chunk_input(payload, location, pipeline, limits)
