"""Convert a recording to amounts per chunk; pure.

Two sizes are recorded. The difference belongs to the chunks, the rest to the job.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from piecework.domain.keys import partition_count

FILE: Final = Path(__file__).with_name("recorded.json")
WRITES: Final = (
    "BatchExecuteStatement",
    "PutItem",
    "UpdateItem",
    "TransactWriteItems",
    "DeleteItem",
)
#: Chunks that end together share a write of the tally; how many do is random.
SHARED: Final = "group TALLY"


@dataclass(frozen=True, slots=True)
class Pattern:
    """The requests of each chunk of a job, and of each of its groups.

    Attributes:
        submit_units: Write units of a chunk's submit.
        work_units: Write units of a chunk's work, without the tally.
        final_read_units: Read units of a chunk at the end of the job, all reads.
        reads: Reads of each group at the end of the job.
        manifest_bytes: Bytes of a chunk in the manifest.
        certificate_bytes: Bytes of a chunk in the certificate.
        finish_bytes: Bytes of a chunk in the memory of the worker that ends the job.
        meta_bytes: Bytes of the job's row, the same for every job.
        cost_bytes: Bytes of the row of the workers' cost.
    """

    name: str
    submit_units: float
    work_units: float
    final_read_units: float
    reads: float
    manifest_bytes: float
    certificate_bytes: float
    finish_bytes: float
    meta_bytes: int
    cost_bytes: int


def read_patterns(path: Path = FILE) -> list[Pattern]:
    """Return the patterns of the recorded jobs, in the order of their names."""
    document = json.loads(path.read_text(encoding="utf-8"))
    memory = float(document["finish_bytes_a_chunk"])
    return [pattern(name, sizes, memory) for name, sizes in document["jobs"].items()]


def pattern(name: str, sizes: Mapping[str, Any], memory: float) -> Pattern:
    """Return the pattern of one job, from its recordings by size."""
    (few, small), (many, large) = sorted((int(n), job) for n, job in sizes.items())
    more = many - few

    def a_chunk(by: str, column: str, kind: str, *operations: str) -> float:
        whole = total(large[by], column, kind, *operations)
        return (whole - total(small[by], column, kind, *operations)) / more

    reads = total(large["worker"], "requests", "group CHUNK", "Query")
    return Pattern(
        name=name,
        submit_units=a_chunk("submitter", "units", "group", *WRITES),
        work_units=a_chunk("worker", "units", "group", *WRITES)
        - a_chunk("worker", "units", SHARED, *WRITES),
        final_read_units=a_chunk("worker", "units", "group", "Query"),
        reads=reads / partition_count(many),
        manifest_bytes=a_chunk("submitter", "bytes", "object manifest", "PUT"),
        certificate_bytes=a_chunk("worker", "bytes", "object certificate", "PUT"),
        finish_bytes=memory,
        meta_bytes=large["item_bytes"]["job META"],
        cost_bytes=large["item_bytes"]["job COST"],
    )


def total(
    rows: list[Mapping[str, Any]], column: str, kind: str, *operations: str
) -> float:
    """Add up a column of the rows of some operations, of kinds that begin so."""
    return sum(
        float(row[column])
        for row in rows
        if row["kind"].startswith(kind) and row["operation"] in operations
    )
