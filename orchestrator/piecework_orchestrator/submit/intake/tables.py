"""Read the rows of a CSV or Parquet file as chunk inputs, one by one."""

from __future__ import annotations

import csv
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from pydantic import BaseModel

from piecework.domain.chunk_input import ChunkInput
from piecework.errors import PieceworkError, UsageError
from piecework.errors.extras import naming_extras
from piecework.pipelines import Pipeline
from piecework_orchestrator.submit.intake.chunk import (
    SourceLocation,
    chunk_input,
    misfit_error,
)
from piecework_orchestrator.submit.intake.columns import (
    aliases,
    require_read,
    require_row_read,
    without_blanks,
)
from piecework_orchestrator.submit.intake.limits import IntakeLimits
from piecework_orchestrator.submit.intake.refusals import Refusals

CSV, PARQUET = ".csv", ".parquet"
#: Rows of a Parquet file that are in memory at once.
BATCH_ROWS = 1_024

#: The number of a row's line, or of the row, and its cells by column, or why it has
#: none.
Row = tuple[int, dict[str, Any] | UsageError]


def is_table(name: str) -> bool:
    """Return whether the suffix is that of a table."""
    return PurePosixPath(name).suffix.lower() in {CSV, PARQUET}


async def table_chunks(
    path: Path,
    origin: str,
    pipeline: Pipeline,
    limits: IntakeLimits,
    refusals: Refusals,
) -> AsyncGenerator[ChunkInput, None]:
    """Yield a chunk for each row; the columns are the fields of the payload.

    `origin`: the path or address for messages.

    Raises:
        UsageError: `input.columns.unknown`; `input.rows.invalid_line` with line and
            column; `input.rows.empty`, `input.file.unreadable`.
    """
    is_csv, model = path.suffix.lower() == CSV, pipeline.payload
    if is_csv:
        rows = csv_rows(path, origin, model, limits)
    else:
        rows = parquet_rows(path, origin, model)
    validate = validate_cells if is_csv else validate_row
    unit = "line" if is_csv else "row"
    empty = True
    for number, row in rows:
        empty = False
        location = SourceLocation(origin, f"{unit} {number}", f"{unit} {number}")
        make = partial(row_chunk, validate, row, location, pipeline, limits)
        if chunk := refusals.checked(make, location, partial(data_of, row), limits):
            yield chunk
    if empty:
        raise UsageError(
            f"The table {origin} contains no row.",
            code="input.rows.empty",
            next_step="Write a header and one chunk per row.",
            origin=origin,
        )
    refusals.end(origin)


def row_chunk(
    validate: Callable[[type[BaseModel], dict[str, Any]], BaseModel],
    row: dict[str, Any] | UsageError,
    location: SourceLocation,
    pipeline: Pipeline,
    limits: IntakeLimits,
) -> ChunkInput:
    """Return the chunk of a row.

    Raises:
        UsageError: The row cannot be read, or does not fit the payload.
    """
    if isinstance(row, UsageError):
        raise row
    payload = validated(validate, pipeline.payload, row, location)
    where = f"{location.part.capitalize()} of {location.origin}"
    require_row_read(where, payload, row, location.origin)
    return chunk_input(payload, location, pipeline, limits)


def data_of(row: dict[str, Any] | UsageError) -> dict[str, Any] | None:
    """Return the cells of a row, for the operator who will correct it."""
    return None if isinstance(row, UsageError) else row


def csv_rows(
    path: Path, origin: str, model: type[BaseModel], limits: IntakeLimits
) -> Iterator[Row]:
    """Yield the rows of a CSV file with a header; a byte order mark is skipped.

    Blanks around the names of columns are dropped.
    """
    last = 0
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            table = csv.DictReader(file, strict=True)
            columns = without_blanks(model, table.fieldnames or ())
            table.fieldnames = columns
            refuse_doubled(f"Line 1 of {origin}", columns, origin)
            require_read(f"Line 1 of {origin}", model, columns, origin)
            last = table.line_num
            while (row := next_row(table, limits.line_bytes)) is not None:
                last = table.line_num
                fits = None not in row and None not in row.values()
                yield last, row if fits else wrong_width(origin, last)
    except csv.Error as error:  # it quotes no data
        raise unreadable(origin, f"the row at line {last + 1}: {error}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise unreadable(origin, reason_of(error)) from error


def next_row(table: csv.DictReader[str], limit: int) -> dict[str, Any] | None:
    """Return the next row, or None; the limit of a cell holds for this row only.

    The limit is one for the whole process, which is the user's program.
    """
    before = csv.field_size_limit(limit)
    try:
        return next(table, None)
    finally:
        csv.field_size_limit(before)


def refuse_doubled(what: str, columns: Sequence[str], origin: str) -> None:
    """Refuse two columns of one name: one of them would be lost.

    Raises:
        UsageError: `input.rows.invalid_line`.
    """
    doubled = sorted({name for name in columns if columns.count(name) > 1})
    if doubled:
        raise UsageError(
            f"{what} has several columns {', '.join(doubled)}.",
            code="input.rows.invalid_line",
            next_step="Give each column a name of its own, then submit again.",
            origin=origin,
        )


def parquet_rows(path: Path, origin: str, model: type[BaseModel]) -> Iterator[Row]:
    """Yield the rows of a Parquet file; pages with a checksum are checked.

    Raises:
        UsageError: `input.file.unreadable` and `input.rows.invalid_line`, both with
            row and column; `cli.extra.missing`.
    """
    with naming_extras():
        import pyarrow as pa  # slow to load
        from pyarrow import parquet

    unread = (OSError, ValueError, pa.ArrowException)
    try:
        file = parquet.ParquetFile(path, page_checksum_verification=True)
    except unread as error:
        raise unreadable(origin, reason_of(error)) from error
    with file:
        columns = without_blanks(model, file.schema_arrow.names)
        refuse_doubled(origin, columns, origin)
        require_read(f"The table {origin}", model, columns, origin)
        batches = file.iter_batches(BATCH_ROWS)
        number = 0
        while True:
            try:
                batch = next(batches, None)
            except unread as error:
                raise damaged(file, unread, origin) from error
            if batch is None:
                return
            named = batch.rename_columns(columns)
            for row in typed_rows(named, number, origin):
                number += 1
                yield number, row


def typed_rows(
    batch: Any, before: int, origin: str
) -> list[dict[str, Any] | UsageError]:
    """Return the rows of a batch; `before` rows of the file come first.

    In place of a row with a cell that has no value in Python is its error,
    `input.rows.invalid_line`. Such a cell has a time of nanoseconds, or text that is
    not UTF-8.
    """
    try:
        rows: list[dict[str, Any] | UsageError] = batch.to_pylist()
        return rows
    except (ValueError, OverflowError):  # the error names no cell
        return [typed_row(batch, n, before, origin) for n in range(batch.num_rows)]


def typed_row(
    batch: Any, place: int, before: int, origin: str
) -> dict[str, Any] | UsageError:
    """Return one row of a batch, or the error of its first cell without a value."""
    row = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        try:
            row[name] = column[place].as_py()
        except (ValueError, OverflowError) as error:
            number = before + place + 1
            return UsageError(
                f"Row {number} of {origin} cannot be read: Python has no value "
                f"for column {name} of type {column.type} ({reason_of(error)}).",
                code="input.rows.invalid_line",
                next_step=f"Correct row {number}, or write the column as text or "
                "with microseconds. No job was created.",
                origin=origin,
                row=number,
                column=name,
            )
    return row


def damaged(file: Any, unread: tuple[type[Exception], ...], origin: str) -> UsageError:
    """Return the error of a file with a damaged page: its column, and from which row.

    pyarrow names neither, so each column of each group is read by itself.
    """
    start = 0
    for group in range(file.num_row_groups):
        for name in file.schema_arrow.names:
            row = start + 1
            try:
                for batch in file.iter_batches(
                    BATCH_ROWS, row_groups=[group], columns=[name]
                ):
                    row += batch.num_rows
            except unread as error:
                return unreadable(
                    origin,
                    f"column {name} is damaged at or after row {row} "
                    f"({reason_of(error)})",
                    "Copy the file again, or write it again from its source.",
                )
        start += file.metadata.row_group(group).num_rows
    return unreadable(origin, "it changed while it was read")


def validate_cells(model: type[BaseModel], row: dict[str, Any]) -> BaseModel:
    """Return the payload of text cells; an empty cell becomes the default, if any."""
    optional = {
        column
        for name, field in model.model_fields.items()
        for column in (name, *aliases(field))
        if not field.is_required()
    }
    given = {n: cell for n, cell in row.items() if cell or n not in optional}
    return model.model_validate_strings(given)


def validate_row(model: type[BaseModel], row: dict[str, Any]) -> BaseModel:
    """Return the payload of a row whose cells have types."""
    return model.model_validate(row)


def validated(
    validate: Callable[[type[BaseModel], dict[str, Any]], BaseModel],
    model: type[BaseModel],
    row: dict[str, Any],
    location: SourceLocation,
) -> BaseModel:
    """Return the payload of a row.

    Raises:
        UsageError: `input.rows.invalid_line`, naming row and columns.
    """
    try:
        return validate(model, row)
    except PieceworkError:
        raise
    except Exception as error:  # noqa: BLE001 -- a validator may raise anything
        raise misfit_error(model, location, error) from None


def wrong_width(origin: str, line: int) -> UsageError:
    """Return the error of a line with more or fewer cells than the header."""
    return UsageError(
        f"Line {line} of {origin} has another number of cells than the header.",
        code="input.rows.invalid_line",
        next_step=f"Correct line {line}, then submit again. No job was created.",
        origin=origin,
    )


def reason_of(error: Exception) -> str:
    """Return why a file cannot be read, without its data."""
    not_utf8 = isinstance(error, UnicodeDecodeError)
    return "it is not UTF-8" if not_utf8 else type(error).__name__


def unreadable(
    origin: str,
    reason: str,
    next_step: str = "Save it as UTF-8 CSV with a header, or as Parquet.",
) -> UsageError:
    """Return the error of a file that is not a table."""
    return UsageError(
        f"{origin} cannot be read as a table: {reason}.",
        code="input.file.unreadable",
        next_step=next_step,
        origin=origin,
    )
