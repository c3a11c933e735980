"""Which chunks of a running job a pass reads: those that may need the reconciler.

A chunk that no worker has drawn from the backlog is PENDING, and one in a tally has
ended for good. A pass reads neither. So it costs what is in flight, not what is left.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from math import inf

from piecework.domain import keys
from piecework.domain.chunk import Chunk
from piecework.domain.job import Job
from piecework.domain.refs import ChunkRef
from piecework.runtime import Runtime
from piecework.store.completion import Tallies, chunks_between, chunks_of_group

#: Bytes of a consistent read unit, and about the bytes of a chunk's row.
UNIT_BYTES = 4096
CHUNK_BYTES = 700


def reads_all(job: Job) -> bool:
    """Return whether each chunk of a job may need the reconciler, drawn or not.

    A later generation has no backlog, and its tallies may have chunks that were
    reopened since. A sample and the heads of order keys pass the backlog by. The chunks
    of a single group are one cheap read.
    """
    small = keys.partition_count(job.chunks) == 1
    return small or job.is_ordered or bool(job.sample) or job.gen > 1


async def groups_to_read(tallies: Tallies, job: Job, before: int) -> set[int]:
    """Return the groups of the first `before` chunks, without those full by tallies.

    Tallies are used only in the first generation, where an ended chunk stays ended. In
    a later one a late process may still add a chunk that was reopened since.
    """
    groups = set(range(keys.partition_count(before)))
    if job.gen > 1 or keys.partition_count(job.chunks) == 1:
        return groups
    groups -= job.full_groups
    for block in range(keys.block_count(before)):
        first = block * keys.BLOCK_SIZE
        if block in job.full_blocks:
            groups -= set(range(first, first + keys.BLOCK_SIZE))
        elif keys.block_count(job.chunks) > 1:
            groups -= await tallies.full_groups_of_block(job.ref, block)
    return groups


async def plan_reads(
    tallies: Tallies, job: Job, groups: Collection[int], before: int, *, whole: bool
) -> dict[int, range]:
    """Return the chunks to read of each group, in order.

    They are the first `before` chunks of the job; unless `whole`, only those from the
    first to the last without a tally.
    """
    plan = {}
    for group in sorted(groups):
        numbers = keys.numbers_of(group, before)
        if not whole:
            ended = await tallies.ended_of_group(job.ref, group)
            open_ = [number for number in numbers if number not in ended]
            numbers = range(open_[0], open_[-1] + 1) if open_ else range(0)
        if numbers:
            plan[group] = numbers
    return plan


def read_numbers(
    rt: Runtime, job: Job, group: int, numbers: range, newer: list[ChunkRef]
) -> AsyncIterator[Chunk]:
    """Read these chunks of a group; see `chunks_of_group`."""
    if numbers == keys.numbers_of(group, job.chunks):
        return chunks_of_group(rt.table, job.ref, group, newer)
    return chunks_between(rt.table, job.ref, numbers, newer)


# ── what the reads of all jobs may cost together ──────────────────────────────


def units_of(plan: Mapping[int, range]) -> float:
    """Return about the read units of these chunks, with the tally of each group."""
    return units_of_chunks(sum(map(len, plan.values()))) + len(plan)


def units_of_chunks(chunks: int) -> float:
    """Return about the read units of so many chunks in a row."""
    return chunks * CHUNK_BYTES / UNIT_BYTES


def fair_rate(wanted: Iterable[float], all_together: float) -> float:
    """Return the rate that no job may exceed, so that all keep to `all_together`.

    A job that wants less leaves the rest to the others. So a large job delays no small
    one. Infinite: all jobs have what they want.
    """
    rates = sorted(wanted)
    for number, rate in enumerate(rates):
        fair = all_together / (len(rates) - number)
        if rate > fair:
            return fair
        all_together -= rate
    return inf
