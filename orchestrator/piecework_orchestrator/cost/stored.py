"""Measure what a job has in the table, from a sample of its rows.

Until a job is deleted, its rows cost storage and backups; then their deletion costs
write units. Only the rows know their sizes, so some of them are read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from piecework.cost import units
from piecework.domain import keys
from piecework.domain.job import Job
from piecework.store.deletions import ROWS_AT_ONCE
from piecework.store.serialization import to_item
from piecework.store.table import Item, Table

#: Partitions of which the first rows are read, and the bytes that are read of each.
PARTITIONS: Final = 4
READ_BYTES: Final = 1024**2
#: The kinds of rows that each chunk has.
KINDS: Final = (keys.CHUNK_PREFIX, keys.RESULT_PREFIX, keys.WORK_PREFIX)
#: Write units of the check of a job's row, with which each transaction begins.
JOB_ROW_UNITS: Final = 2
#: Bytes that DynamoDB adds to each item that it stores.
ITEM_BYTES: Final = 100


@dataclass(frozen=True, slots=True)
class Stored:
    """What the rows of a job are stored as, and what their deletion costs.

    Attributes:
        bytes: As DynamoDB bills storage.
        write_units, read_units: Of their deletion.
    """

    bytes: float = 0.0
    write_units: float = 0.0
    read_units: float = 0.0

    def __add__(self, other: Stored) -> Stored:
        """Return both together."""
        return Stored(
            self.bytes + other.bytes,
            self.write_units + other.write_units,
            self.read_units + other.read_units,
        )

    def times(self, factor: float) -> Stored:
        """Return so many times as much."""
        return Stored(
            self.bytes * factor, self.write_units * factor, self.read_units * factor
        )


async def stored_by(table: Table, job: Job) -> Stored:
    """Return what all rows of a job are, as far as a sample of them shows.

    The rows of at most four partitions are read, a megabyte of each kind.
    """
    found, chunks = Stored(), 0
    for partition in spread(keys.partition_count(job.chunks)):
        chunks += keys.partition_size(partition, job.chunks)
        for prefix in KINDS:
            found += await kind_of(table, job, partition, prefix)
    return found.times(job.chunks / max(1, chunks))


async def kind_of(table: Table, job: Job, partition: int, prefix: str) -> Stored:
    """Return what the rows of one kind in a partition are.

    If they are more than a megabyte, those of the first chunks show it.
    """
    pk = keys.partition_pk(job.ref.tenant, job.ref.job, partition)
    sizes: dict[int, list[int]] = defaultdict(list)
    read = 0
    async for row in table.query(pk, prefix, any_version=True):
        name = row["sk"].split("#")[1]
        # The rows of the join follow those of the chunks.
        chunk = int(name) if name.isdigit() else keys.PARTITION_SIZE * (partition + 1)
        if read >= READ_BYTES and chunk not in sizes:
            break
        size = size_of(row)
        sizes[chunk].append(size)
        read += size
    else:
        return stored_as([each for some in sizes.values() for each in some])
    covered = max(sizes) + 1 - partition * keys.PARTITION_SIZE
    part = stored_as([each for some in sizes.values() for each in some])
    return part.times(keys.partition_size(partition, job.chunks) / covered)


async def stored_of(table: Table, job: Job, chunks: Sequence[int]) -> Stored:
    """Return what the rows of some chunks are."""
    sizes = []
    for chunk in chunks:
        pk = keys.chunk_pk(job.ref.tenant, job.ref.job, chunk)
        for prefix in (
            keys.chunk_sk(chunk),
            keys.result_sk(chunk),
            keys.work_prefix(chunk),
        ):
            found = table.query(pk, prefix, any_version=True)
            sizes += [size_of(row) async for row in found]
    return stored_as(sizes)


def stored_as(sizes: Sequence[int]) -> Stored:
    """Return what rows of these sizes are stored as."""
    written, read = deletion_units(sizes)
    return Stored(sum(sizes) + ITEM_BYTES * len(sizes), written, read)


def deletion_units(sizes: Sequence[int]) -> tuple[float, float]:
    """Return the write and read units that the deletion of rows takes.

    `sizes` are the bytes of the rows. Each is read, and deleted in a transaction that
    also checks the row of the job, which has less than 2 KB.
    """
    rows = sum(map(units.write_units, sizes))
    checks = JOB_ROW_UNITS * len(sizes) / ROWS_AT_ONCE
    return units.TRANSACTION * (rows + checks), sum(sizes) / units.READ_BYTES


def spread(partitions: int) -> list[int]:
    """Return a few partitions, evenly spread over all."""
    wanted = min(PARTITIONS, partitions)
    return [index * partitions // wanted for index in range(wanted)]


def size_of(row: Item) -> int:
    """Return the bytes of a row."""
    return units.item_size(to_item(row))
