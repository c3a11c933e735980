"""Read the rows that a program submits as chunk inputs, one by one."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Mapping
from functools import partial

from pydantic import BaseModel

from piecework.domain.chunk_input import ChunkInput
from piecework.domain.payload import describe_payload_error
from piecework.errors import PieceworkError, UsageError
from piecework.pipelines import Pipeline
from piecework_orchestrator.submit.intake.chunk import SourceLocation, chunk_input
from piecework_orchestrator.submit.intake.columns import (
    require_read,
    require_row_read,
    row_without_blanks,
)
from piecework_orchestrator.submit.intake.limits import (
    DEFAULT_INTAKE_LIMITS,
    IntakeLimits,
)
from piecework_orchestrator.submit.intake.refusals import Refusals

ORIGIN = "the rows"


async def row_chunks(
    rows: Iterable[object] | AsyncIterable[object],
    pipeline: Pipeline,
    limits: IntakeLimits = DEFAULT_INTAKE_LIMITS,
    refusals: Refusals | None = None,
) -> AsyncGenerator[ChunkInput, None]:
    """Yield the validated chunk of each row: a payload, or a mapping of its fields.

    Raises:
        UsageError: `input.payload.invalid`, `input.payload.too_large`,
            `input.columns.unknown`, `input.rows.empty`, `input.chunks.too_many`.
    """
    number, refusals = 0, refusals or Refusals()
    async for row in each_row(rows):
        number += 1
        if number > limits.chunks:
            raise UsageError(
                f"There are more than {limits.chunks:,} rows.",
                code="input.chunks.too_many",
                next_step="Submit them in parts, or make the chunks larger.",
            )
        location = SourceLocation(ORIGIN, f"row {number}", f"row {number}")
        make = partial(row_chunk, row, number, location, pipeline, limits)
        if chunk := refusals.checked(make, location, partial(data_of, row), limits):
            yield chunk
    if not number:
        raise UsageError(
            "There is no row to submit.",
            code="input.rows.empty",
            next_step="Submit at least one row.",
        )
    refusals.end(ORIGIN)


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


def data_of(row: object) -> object:
    """Return the fields of a row, for the operator who will correct it."""
    return dict(row) if isinstance(row, BaseModel | Mapping) else row


def row_chunk(
    row: object,
    number: int,
    location: SourceLocation,
    pipeline: Pipeline,
    limits: IntakeLimits,
) -> ChunkInput:
    """Return the chunk of one row; `number` counts from 1."""
    model = pipeline.payload
    if isinstance(row, BaseModel):
        return chunk_input(row, location, pipeline, limits)
    if not isinstance(row, Mapping):
        raise UsageError(
            f"Row {number} is a {type(row).__name__}, not a {model.__name__}.",
            code="input.payload.invalid",
            next_step=f"Pass {model.__name__} objects, or mappings of their fields.",
        )
    row = row_without_blanks(model, row)
    require_read(f"Row {number}", model, row, ORIGIN, "keys")
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
    require_row_read(f"Row {number}", payload, row, ORIGIN)
    return chunk_input(payload, location, pipeline, limits)
