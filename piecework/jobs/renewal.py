"""Renew the rows of a job that lives longer than they do.

    4 days before `rows_until`  that becomes now + retention + 7 days; a first sweep
    12 hours later              a second sweep of all partitions
    then                        `renew_at` is 4 days before the new `rows_until`

A row has the time that its chunk had when its claim began. A claim lasts 11 hours at
most, so the second sweep finds what such a claim wrote meanwhile. The rows of a job
therefore live until the time before as long as the renewal goes on.

The pages of the journal of a chunk with a result are left to DynamoDB: no claim of it
follows, and none of its claims was lost. Only the list of its calls loses them. All
other rows are renewed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

from piecework.domain import keys
from piecework.domain.chunk import Chunk
from piecework.domain.job import Job
from piecework.domain.moments import iso, moment
from piecework.domain.records import MALFORMED_ERRORS
from piecework.domain.refs import JobRef
from piecework.domain.retention import SECOND_RENEWAL_S, renewal_at, rows_until
from piecework.domain.states import ChunkStatus
from piecework.errors import PieceworkError
from piecework.jobs.fan_out import batched, gather_limited
from piecework.runtime import Runtime
from piecework.store.renewals import Renewals
from piecework.store.table import Item

#: Sweeps of a renewal.
SWEEPS = 2
#: Partitions that one pass sweeps, and rows that it renews at once.
PARTITIONS_AT_ONCE = 16
ROWS_AT_ONCE = 8


def renewal_is_due(job: Job, now: float) -> bool:
    """Return whether a reconciler begins a renewal now, or goes on with one."""
    return bool(job.renew_at) and moment(job.renew_at) <= now


async def renew_rows(rt: Runtime, job: Job) -> bool:
    """Go on with the renewal of a job's rows; True: it is complete.

    Any process may stop at any time: the next one goes on after the partitions that are
    recorded.
    """
    renewals = Renewals(rt.table)
    partitions = keys.partition_count(job.chunks)
    swept = job.renewed_partitions
    if swept is None:
        until = rows_until(rt.clock(), rt.settings.job_retention_days)
        if not await renewals.note(job, 0, {"rows_until": until}):
            return False
        job = replace(job, item={**job.item, "rows_until": until})
        swept = 0
    end = partitions * (1 + swept // partitions)  # of this sweep
    for partition in range(swept, min(swept + PARTITIONS_AT_ONCE, end)):
        await renew_partition(rt, job, partition % partitions)
        swept = partition + 1
    if swept == SWEEPS * partitions:
        return await renewals.note(job, None, {"renew_at": renewal_at(job.rows_until)})
    again = {"renew_at": iso(rt.clock() + SECOND_RENEWAL_S)} if swept == end else {}
    await renewals.note(job, swept, again)
    return False


async def renew_partition(rt: Runtime, job: Job, partition: int) -> None:
    """Renew the rows of a partition that the job still needs."""
    pk = keys.partition_pk(job.ref.tenant, job.ref.job, partition)
    until, renewals = int(moment(job.rows_until)), Renewals(rt.table)

    async def renew(rows: list[Item]) -> None:
        await renewals.renew(pk, rows[0]["sk"], until)

    needed = needed_rows(rt.table.query(pk, any_version=True), job.ref, until)
    await gather_limited(renew, batched(needed, 1), ROWS_AT_ONCE)


async def needed_rows(
    rows: AsyncIterator[Item], ref: JobRef, until: int
) -> AsyncIterator[Item]:
    """Yield the rows of a partition that would end before `until`, and are needed.

    The rows of the chunks come before those of their work.
    """
    settled: list[str] = []
    async for row in rows:
        sk, ends = row["sk"], row.get("expires_at")
        if sk.startswith(keys.CHUNK_PREFIX) and needs_no_page(ref, row):
            settled.append(keys.calls_prefix(keys.chunk_number(sk)))
        is_page = keys.CALLS_ROWS in sk and sk.startswith(tuple(settled))
        if isinstance(ends, int) and ends < until and not is_page:
            yield row


def needs_no_page(ref: JobRef, row: Item) -> bool:
    """Return whether a chunk has a result, and no claim whose bill is on its pages."""
    try:
        chunk = Chunk.read(ref.chunk(keys.chunk_number(row["sk"])), row)
        return chunk.status is ChunkStatus.SUCCEEDED and not chunk.lost_fences
    except (PieceworkError, *MALFORMED_ERRORS):  # damaged: nothing of it may vanish
        return False
