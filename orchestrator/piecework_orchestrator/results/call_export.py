"""Write the calls of a job, or of a chunk, to a path or to S3: one row a call.

The rows stream: a job of any size needs the memory of one partition of chunks and of
one batch of rows. Arguments and answers are not among them.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, Final, TypeAlias

from piecework.domain.job import Job
from piecework.runtime import Runtime
from piecework_orchestrator.reading.call_documents import CallRow, calls_of_job
from piecework_orchestrator.results.destination import open_destination
from piecework_orchestrator.results.export import cell, writer_of

#: Rows that are written together.
BATCH: Final = 10_000
#: The columns, and their types in a table: a text, a whole number, or a float.
COLUMNS: Final[Mapping[str, type]] = {
    "job": str,
    "chunk": str,
    "label": str,
    "call": int,
    "stage": str,
    "dependency": str,
    "function": str,
    "end": str,
    "code": str,
    "attempts": int,
    "failed_codes": str,
    "asked_at": str,
    "waited_s": float,
    "took_s": float,
    "tokens_in": int,
    "tokens_out": int,
    "usd": float,
    "effect": str,
    "replayed_by": str,
    "key": str,
    "claim": int,
    "code_version": str,
}
Rows: TypeAlias = Sequence[dict[str, Any]]
#: Writes the next rows.
Sink: TypeAlias = Callable[[Rows], None]


async def export_calls(
    rt: Runtime, job: Job, to: str | Path, chunk: int | None = None
) -> int:
    """Write each call in order of chunks and of their requests; return how many.

    Raises:
        UsageError: `cli.usage.invalid`: the suffix is unknown; `cli.extra.missing`.
        NotFoundError: `job.chunk.not_found`.
        StoreError: AWS cannot be reached.
    """
    writer_of(to)  # refuses a wrong suffix before anything is read
    opened = SINKS[PurePosixPath(to).suffix.lower()]
    number = 0
    async with open_destination(rt, to) as file:
        with opened(file) as write:
            async for rows in batches(calls_of_job(rt, job, chunk)):
                write([row_of(each) for each in rows])
                number += len(rows)
    return number


async def batches(found: AsyncIterator[CallRow]) -> AsyncIterator[list[CallRow]]:
    """Yield the rows in batches."""
    batch: list[CallRow] = []
    async for row in found:
        batch.append(row)
        if len(batch) == BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def row_of(found: CallRow) -> dict[str, Any]:
    """Return a call as a row of a table."""
    chunk, call = found
    tried = ", ".join(each["code"] for each in call["failed_attempts"])
    row = {
        **call,
        "job": chunk.ref.job,
        "chunk": chunk.ref.name,
        "label": chunk.label,
        "failed_codes": tried,
        "replayed_by": ", ".join(map(str, call["replayed_by"])),
    }
    return {name: row[name] for name in COLUMNS}


@contextmanager
def jsonl_sink(file: BinaryIO) -> Iterator[Sink]:
    """Write each row as a JSON object."""
    yield lambda rows: file.writelines(
        (json.dumps(row, ensure_ascii=False) + "\n").encode() for row in rows
    )


@contextmanager
def csv_sink(file: BinaryIO) -> Iterator[Sink]:
    """Write a header and the rows."""
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    table = csv.writer(text)
    table.writerow(COLUMNS)
    yield lambda rows: table.writerows(
        [cell(row[name]) for name in COLUMNS] for row in rows
    )
    text.detach()  # flushes, and leaves the file to its owner


@contextmanager
def parquet_sink(file: BinaryIO) -> Iterator[Sink]:
    """Write one row group a batch."""
    import pyarrow as pa  # an extra, and slow to load
    from pyarrow import parquet

    types = {str: pa.string(), int: pa.int64(), float: pa.float64()}
    schema = pa.schema([(name, types[kind]) for name, kind in COLUMNS.items()])
    with parquet.ParquetWriter(file, schema) as table:
        yield lambda rows: table.write_table(
            pa.Table.from_pylist(list(rows), schema=schema)
        )


SINKS: Final[Mapping[str, Callable[[BinaryIO], Any]]] = {
    ".jsonl": jsonl_sink,
    ".csv": csv_sink,
    ".parquet": parquet_sink,
}
