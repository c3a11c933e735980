"""The groups of a running job that may contain chunks that have not ended."""

from __future__ import annotations

from piecework import keys, layout
from piecework.model import Job
from piecework.store.table import Table
from piecework.store.tallies import FULL_BLOCKS, FULL_GROUPS


async def groups_to_read(table: Table, job: Job) -> set[int]:
    """Return the groups of a job without those that are full by its tallies.

    Tallies are used only in the first generation, where an ended chunk stays ended. In
    a later one a late process may still add a chunk that was reopened since.
    """
    groups = set(range(layout.partition_count(job.chunks)))
    if job.gen > 1 or len(groups) == 1:
        return groups
    full_blocks = job.item.get(FULL_BLOCKS, ())
    groups -= set(job.item.get(FULL_GROUPS, ()))
    for block in range(layout.block_count(job.chunks)):
        first = block * layout.BLOCK_SIZE
        if block in full_blocks:
            groups -= set(range(first, first + layout.BLOCK_SIZE))
        elif layout.block_count(job.chunks) > 1:
            pk = keys.partition_pk(job.ref.tenant, job.ref.job, first)
            item = await table.get(pk, keys.BLOCK_SK) or {}
            groups -= set(item.get(FULL_GROUPS, ()))
    return groups
