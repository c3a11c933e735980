"""Forecast what a child job will spend, from an earlier child of the same pipeline.

The mean of its first chunks, times the rows. Without an earlier child that has ended
nothing is known, and the forecast is the smallest amount: a child starts unless the
budget is spent.
"""

from __future__ import annotations

from itertools import islice

from piecework.domain import keys
from piecework.domain.budget import Amount
from piecework.domain.job import Job
from piecework.domain.refs import JobRef
from piecework.store.children import children_of
from piecework.store.completion import chunks_of_group
from piecework.store.paid import amount_of
from piecework.store.table import Table

#: Earlier children that are looked at, the last ones by id.
LOOKED_AT = 8


async def forecast_child(
    table: Table, parent: JobRef, pipeline: str, rows: int
) -> Amount:
    """Return about what a child of so many rows spends."""
    known = [row async for row in children_of(table, parent)]
    same = (row for row in known if row.pipeline == pipeline)
    for row in islice(same, LOOKED_AT):
        ref = row.ref(parent)
        item = await table.get(ref.pk, keys.META_SK, any_version=True)
        job = None if item is None else Job.read(ref, item)
        if job is None or not job.status.ended:
            continue
        if found := await mean_of_first(table, job, rows):
            return found
    return Amount(1, 1)


async def mean_of_first(table: Table, job: Job, rows: int) -> Amount:
    """Return what the first chunks of a job spent on average, times some rows."""
    paid, number = Amount(), 0
    async for chunk in chunks_of_group(table, job.ref, 0, []):
        paid += amount_of(chunk.call_usage, "paid")
        number += 1
    if not number:
        return Amount()
    return Amount(paid.tokens * rows // number, paid.nano_usd * rows // number)
