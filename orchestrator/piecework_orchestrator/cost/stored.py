"""Measure what a job has in the table, from a sample of its rows.

Its rows cost storage and backups until they are gone. DynamoDB deletes those with a
time free of charge, so that the retention pays for a few rows only. A deletion at once
pays for all. Only the rows know their sizes, so some of them are read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from piecework.cost import units
from piecework.domain import keys
from piecework.domain.job import Job
from piecework.domain.moments import moment
from piecework.domain.retention import DAY_S, SPARE_DAYS
from piecework.store.serialization import to_item
from piecework.store.table import Item, Table

#: Partitions of which the first rows are read, and the bytes that are read of each.
PARTITIONS: Final = 4
READ_BYTES: Final = 1024**2
#: The kinds of rows that each chunk has.
KINDS: Final = (keys.CHUNK_PREFIX, keys.RESULT_PREFIX, keys.WORK_PREFIX)
#: Write units of the transitions of a deletion: the row of a job, of up to 2 KB, in two
#: transactions, with its marks and its event.
TRANSITION_UNITS: Final = 20
#: Sweeps of a deletion: each deletes the tallies, without a read.
SWEEPS: Final = 2
#: Bytes of the number of a chunk in a tally.
TALLY_ELEMENT_BYTES: Final = 4
#: Bytes that DynamoDB adds to each item that it stores.
ITEM_BYTES: Final = 100


@dataclass(frozen=True, slots=True)
class Stored:
    """What the rows of a job are stored as, and what their deletion costs.

    Attributes:
        bytes: As DynamoDB bills storage.
        write_units, read_units: Of their deletion.
        spare_days: Days for which they are stored beyond the deletion of their job.
    """

    bytes: float = 0.0
    write_units: float = 0.0
    read_units: float = 0.0
    spare_days: float = 0.0

    def __add__(self, other: Stored) -> Stored:
        """Return both together."""
        return Stored(
            self.bytes + other.bytes,
            self.write_units + other.write_units,
            self.read_units + other.read_units,
            max(self.spare_days, other.spare_days),
        )

    def times(self, factor: float) -> Stored:
        """Return so many times as much."""
        return replace(
            self,
            bytes=self.bytes * factor,
            write_units=self.write_units * factor,
            read_units=self.read_units * factor,
        )


async def stored_by(table: Table, job: Job) -> Stored:
    """Return what all rows of a job are, and what its retention pays to delete them.

    The rows of at most four partitions are read, a megabyte of each kind.
    """
    found = await sampled(table, job)
    if not job.rows_until:
        return found + await untimed(table, job)
    alone = await untimed(table, job)
    return replace(
        alone, bytes=alone.bytes + found.bytes, spare_days=spare_days_of(job)
    )


async def stored_at_once(table: Table, job: Job) -> Stored:
    """Return what all rows of a job are, and what it takes to delete them at once."""
    return await sampled(table, job) + await untimed(table, job)


async def sampled(table: Table, job: Job) -> Stored:
    """Return what the rows of a job's chunks are, as far as a sample shows them."""
    found, chunks = Stored(), 0
    for partition in spread(keys.partition_count(job.chunks)):
        chunks += keys.partition_size(partition, job.chunks)
        for prefix in KINDS:
            found += await kind_of(table, job, partition, prefix)
    return found.times(job.chunks / max(1, chunks))


async def untimed(table: Table, job: Job) -> Stored:
    """Return what the rows without a time are, and their deletion in two sweeps."""
    sizes = [
        size_of(row)
        for prefix in keys.UNTIMED_PREFIXES
        async for row in table.query(job.ref.pk, prefix, any_version=True)
    ]
    reads = SWEEPS * len(keys.UNTIMED_PREFIXES)  # each query reads a unit at least
    found = stored_as(sizes) + tallies(job.chunks)
    return found + Stored(0.0, TRANSITION_UNITS, reads)


def tallies(chunks: int) -> Stored:
    """Return what the tallies of so many chunks are."""
    size = min(chunks, keys.PARTITION_SIZE) * TALLY_ELEMENT_BYTES
    written = keys.partition_count(chunks) * SWEEPS * units.write_units(size)
    return Stored(chunks * TALLY_ELEMENT_BYTES, written)


def spare_days_of(job: Job) -> float:
    """Return for how many days the rows of an ended job outlive it."""
    if not (job.rows_until and job.delete_after):
        return 0.0
    spare = moment(job.rows_until) - moment(job.delete_after)
    return max(0.0, spare / DAY_S)


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
    """Return what the rows of some chunks are, and what the retention pays for them."""
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
    stored = stored_as(sizes)
    shared = tallies(keys.PARTITION_SIZE).times(len(chunks) / keys.PARTITION_SIZE)
    if not job.rows_until:
        return stored + shared
    return replace(
        shared, bytes=stored.bytes + shared.bytes, spare_days=float(SPARE_DAYS)
    )


def stored_as(sizes: Sequence[int]) -> Stored:
    """Return what rows of these sizes are stored as."""
    written, read = deletion_units(sizes)
    return Stored(sum(sizes) + ITEM_BYTES * len(sizes), written, read)


def deletion_units(sizes: Sequence[int]) -> tuple[float, float]:
    """Return the write and read units that the deletion of rows takes.

    `sizes` are the bytes of the rows. Each is read, and deleted in a plain batch.
    """
    return sum(map(units.write_units, sizes)), sum(sizes) / units.READ_BYTES


def spread(partitions: int) -> list[int]:
    """Return a few partitions, evenly spread over all."""
    wanted = min(PARTITIONS, partitions)
    return [index * partitions // wanted for index in range(wanted)]


def size_of(row: Item) -> int:
    """Return the bytes of a row."""
    return units.item_size(to_item(row))
