"""Write the results of a job to a path or to S3: JSON lines, CSV or Parquet.

A result that is an object becomes one column for each field, `value.field`; any other
result becomes the column `value`.
"""

from __future__ import annotations

import csv
import io
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, Any, BinaryIO

from piecework.domain.job import Job
from piecework.errors import UsageError
from piecework.errors.extras import naming_extras
from piecework.runtime import Runtime
from piecework_orchestrator.results.destination import (
    is_object,
    object_place,
    open_destination,
)
from piecework_orchestrator.results.json_text import encode_json
from piecework_orchestrator.results.results import ended_chunks, result_json

#: A text that begins with one of these is a formula to a spreadsheet.
FORMULAS = ("=", "+", "-", "@", "\t", "\r")
#: The columns before those of the value.
FACTS = ("chunk", "label", "status", "error_code")


async def export(
    rt: Runtime,
    job: Job,
    to: str | Path,
    *,
    escape_formulas: bool = False,
    with_version: bool = False,
) -> int:
    """Write every chunk that has ended, in order; return how many.

    `escape_formulas`: a cell of a .csv file that a spreadsheet would compute begins
    with an apostrophe. `with_version`: with the column `code_version`.

    The rows are spooled on disk first, because the columns are known only at the end.

    Raises:
        UsageError: `cli.usage.invalid`: the suffix is unknown; `cli.extra.missing`.
        StateError, PermanentError: A stored result cannot be read.
        StoreError: S3 cannot be reached.
    """
    write = writer_of(to, escape_formulas=escape_formulas)
    count = 0
    with tempfile.TemporaryFile("w+", encoding="utf-8") as spool:
        columns = dict.fromkeys(FACTS)
        async for ended in ended_chunks(rt, job):
            chunk = ended.chunk
            row: dict[str, Any] = {
                "chunk": chunk.ref.chunk,
                "label": chunk.label,
                "status": str(chunk.status),
                **({"code_version": ended.code_version} if with_version else {}),
            }
            if ended.succeeded:
                row |= value_columns(json.loads(await result_json(rt, ended)))
            else:
                row["error_code"] = ended.error_code
            columns |= dict.fromkeys(row)
            spool.write(json.dumps(row, ensure_ascii=False) + "\n")
            count += 1
        spool.seek(0)
        async with open_destination(rt, to) as file:
            write(file, list(columns), rows_of(spool))
    return count


def value_columns(value: Any) -> dict[str, Any]:
    """Return a result as columns."""
    if isinstance(value, dict) and value:
        return {f"value.{name}": field for name, field in value.items()}
    return {"value": value}


def rows_of(spool: IO[str]) -> Iterator[dict[str, Any]]:
    """Yield the spooled rows."""
    return map(json.loads, spool)


Writer = Callable[[BinaryIO, list[str], Iterator[dict[str, Any]]], None]


def write_jsonl(file: BinaryIO, _: list[str], rows: Iterator[dict[str, Any]]) -> None:
    """Write each row as a JSON object."""
    file.writelines((encode_json(row) + "\n").encode() for row in rows)


def write_csv(
    file: BinaryIO,
    columns: list[str],
    rows: Iterator[dict[str, Any]],
    as_cell: Callable[[Any], Any] | None = None,
) -> None:
    """Write a header and the rows; a list or an object becomes JSON in its cell."""
    as_cell = as_cell or cell
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    table = csv.writer(text)
    table.writerow(map(as_cell, columns))
    table.writerows([as_cell(row.get(n, "")) for n in columns] for row in rows)
    text.detach()  # flushes, and leaves the file to its owner


def cell(value: Any) -> Any:
    """Return a value as a cell of a CSV file."""
    if isinstance(value, dict | list):
        return encode_json(value)
    return value


def escaped_cell(value: Any) -> Any:
    """Return a cell that no spreadsheet computes; numbers stay numbers."""
    value = cell(value)
    if isinstance(value, str) and value.startswith(FORMULAS):
        return f"'{value}"
    return value


def write_parquet(
    file: BinaryIO, columns: list[str], rows: Iterator[dict[str, Any]]
) -> None:
    """Write one table; the types of the columns are those of their values."""
    import pyarrow as pa  # an extra, and slow to load
    from pyarrow import parquet

    found = list(rows)
    arrays = {name: [row.get(name) for row in found] for name in columns}
    try:
        parquet.write_table(pa.table(arrays), file)
    except (pa.ArrowException, OverflowError) as error:
        message = f"The results do not fit into the columns of a table: {error}."
        step = "Export to .jsonl, which accepts values of any type."
        raise UsageError(message, next_step=step) from error


WRITERS: Mapping[str, Writer] = {
    ".jsonl": write_jsonl,
    ".csv": write_csv,
    ".parquet": write_parquet,
}


def writer_of(to: str | Path, *, escape_formulas: bool = False) -> Writer:
    """Return the writer for a suffix.

    Raises:
        UsageError: `cli.usage.invalid`, `cli.extra.missing`.
    """
    if is_object(to):
        object_place(str(to))  # before the results are read
    path = PurePosixPath(to)
    suffix = path.suffix.lower()
    if suffix not in WRITERS:
        message = f"{path.name} does not end with {', '.join(WRITERS)}."
        raise UsageError(message, next_step="Name a file with one of these suffixes.")
    if escape_formulas:
        if suffix != ".csv":
            message = f"--escape-formulas is for .csv files, not for {path.name}."
            raise UsageError(message, next_step="Remove the option.")
        return partial(write_csv, as_cell=escaped_cell)
    if suffix == ".parquet":
        with naming_extras():
            import pyarrow as pa  # noqa: F401 -- before the results are read
    return WRITERS[suffix]
