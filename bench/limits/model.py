"""Compute which limit binds first for a job and a fleet, and the job's duration.

The module is pure. It assumes the worst case. Chunks are dispatched in order, so that
chunks in progress lie in the fewest partitions. No burst capacity is used, and no
partition is split.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from bench.limits import quotas
from bench.limits.recorded import Pattern
from piecework.cost.units import READ_BYTES, number_size, read_units, write_units
from piecework.domain.keys import (
    MAX_CHUNK_NUMBER,
    PARTITION_SIZE,
    block_count,
    partition_count,
)

#: Chunks in progress per worker.
CONCURRENCY: Final = 32
#: Seconds of a lease, of which a third passes between two renewals.
LEASE_S: Final = 18.0
#: Bytes of a payload that is reckoned with, and of the window that a worker reads.
PAYLOAD: Final = 2 * 1024
WINDOW: Final = 256 * 1024
#: Seconds between two polls of a worker for its job's item, and for the breakers.
POLL_S: Final = 0.5
#: Seconds between two writes of a busy worker's cost of a job.
COST_S: Final = 5.0
#: Bytes of a tally's keys and names, about.
TALLY_OVERHEAD_BYTES: Final = 100
#: Groups that a submit writes by turns.
INTERLEAVED_GROUPS: Final = 16
#: Read units a second that a reconciler spends on reading chunks, and the assumed size
#: of a chunk item.
RECONCILE_UNITS: Final = 200.0
CHUNK_BYTES: Final = 700
#: Pages of its journal that a chunk writes in a second in which it always calls.
PAGES_A_SECOND: Final = 4
#: Seconds after which a table's capacity doubles.
DOUBLES_S: Final = 1_800.0


@dataclass(frozen=True, slots=True)
class Run:
    """A job of so many chunks of so many seconds each, and so many workers."""

    chunks: int
    workers: int
    seconds: float

    @property
    def in_progress(self) -> int:
        """The chunks in progress at once, if no limit binds."""
        return min(self.chunks, self.workers * CONCURRENCY)

    @property
    def ideal_s(self) -> float:
        """The duration of the work, if no limit binds."""
        return math.ceil(self.chunks / (self.workers * CONCURRENCY)) * self.seconds


@dataclass(frozen=True, slots=True)
class MinimumTime:
    """The minimum duration of a job's work, and the limit that causes it.

    `by` is None if only the number of workers bounds it.
    """

    seconds: float
    by: quotas.Quota | None


def minimum_time(run: Run, pattern: Pattern) -> MinimumTime:
    """Return the minimum duration, and the limit that binds first."""
    slowest, by = run.ideal_s, None
    for quota, rate in rates(run, pattern):
        if run.chunks / rate > slowest:
            slowest, by = run.chunks / rate, quota
    # The last chunk that the limit admits must still run.
    return MinimumTime(slowest + (run.seconds if by else 0.0), by)


def rates(run: Run, pattern: Pattern) -> Iterator[tuple[quotas.Quota, float]]:
    """Yield the maximum chunks a second under each limit."""
    units = units_a_chunk(run, pattern)
    in_progress = min(run.in_progress, quotas.IN_FLIGHT.limit)
    partitions = math.ceil(in_progress / PARTITION_SIZE)
    yield quotas.IN_FLIGHT, quotas.IN_FLIGHT.limit / run.seconds
    yield quotas.PARTITION_WRITES, partitions * quotas.PARTITION_WRITES.limit / units
    yield quotas.TABLE_WRITES, quotas.TABLE_WRITES.limit / units
    yield quotas.PREFIX_READS, quotas.PREFIX_READS.limit / payload_reads(run.workers)


def units_a_chunk(run: Run, pattern: Pattern) -> float:
    """Return the write units of a chunk, all of them in the partition of its group."""
    return pattern.work_units + tally_units(run.chunks) + renewals(run.seconds)


def tally_units(chunks: int) -> float:
    """Return the write units of counting a chunk by itself, on an average."""
    size = min(chunks, PARTITION_SIZE)
    number = number_size(str(MAX_CHUNK_NUMBER)[: len(str(chunks - 1))])
    return (
        sum(write_units(TALLY_OVERHEAD_BYTES + n * number) for n in range(1, size + 1))
        / size
    )


def job_item_bytes(chunks: int, pattern: Pattern) -> int:
    """Return the size of the job item at its end, with all full groups listed in it."""
    blocks, groups = block_count(chunks), partition_count(chunks)
    members = groups if blocks == 1 else blocks
    return pattern.meta_bytes + sum(number_size(str(n)) for n in range(members))


def reconciler_pass_s(chunks: int) -> float:
    """Return the seconds between two reads of a chunk by the reconciler."""
    return chunks * CHUNK_BYTES / READ_BYTES / RECONCILE_UNITS


def renewals(seconds: float) -> float:
    """Return the write units of keeping a chunk's lease alive: one every third."""
    return seconds / (LEASE_S / 3)


def payload_reads(workers: int) -> float:
    """Return the reads of the bucket for a chunk: neighbours share a window of it."""
    return min(1.0, workers * PAYLOAD / WINDOW)


def submit_s(chunks: int, pattern: Pattern) -> float:
    """Return the seconds of writing the chunks, as the partitions allow."""
    partitions = min(partition_count(chunks), INTERLEAVED_GROUPS)
    rate = partitions * quotas.PARTITION_WRITES.limit / pattern.submit_units
    return chunks / min(rate, quotas.TABLE_WRITES.limit / pattern.submit_units)


def new_table_s(units: float) -> float:
    """Return the seconds of these write units on a new table.

    The published worst case: 4,000 a second at first, doubling each half hour.
    """
    seconds, capacity = 0.0, float(quotas.NEW_TABLE_WRITES.limit)
    while units > capacity * DOUBLES_S and capacity < quotas.TABLE_WRITES.limit:
        units -= capacity * DOUBLES_S
        seconds += DOUBLES_S
        capacity = min(2 * capacity, quotas.TABLE_WRITES.limit)
    return seconds + units / capacity


@dataclass(frozen=True, slots=True)
class FleetDemand:
    """The rate at which a fleet uses a resource, independent of the work.

    Attributes:
        max_workers: The number of workers at which the limit binds.
    """

    what: str
    quota: quotas.Quota
    per_worker: float

    @property
    def max_workers(self) -> int:
        """Workers that the limit bears."""
        return int(self.quota.limit / self.per_worker)


def fleet_demands(pattern: Pattern) -> list[FleetDemand]:
    """Return the rates of each worker beside its chunks."""
    reads = read_units(pattern.meta_bytes) / POLL_S
    return [
        FleetDemand("polls of the job's item", quotas.PARTITION_READS, reads),
        FleetDemand("polls of the breakers", quotas.PARTITION_READS, 1 / POLL_S),
        FleetDemand("both, on the table", quotas.TABLE_READS, reads + 1 / POLL_S),
        FleetDemand(
            "cost of the job",
            quotas.PARTITION_WRITES,
            write_units(pattern.cost_bytes) / COST_S,
        ),
        FleetDemand(
            "a reconciler beside each worker", quotas.TABLE_READS, RECONCILE_UNITS
        ),
    ]
