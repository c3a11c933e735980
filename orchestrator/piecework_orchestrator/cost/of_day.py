"""Estimate what several jobs have cost so far, in as many requests for any of them.

What their calls used is that of a sample of their chunks. What they took of AWS was
counted. Their storage is ahead, and left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, get_args

from piecework.cost.meter import Actor
from piecework.domain import keys
from piecework.domain.call_usage import CallUsage
from piecework.domain.job import Job
from piecework.domain.refs import JobRef
from piecework.errors import UsageError
from piecework.runtime import Runtime
from piecework_orchestrator.cost import bill
from piecework_orchestrator.cost.bill import TaskSize
from piecework_orchestrator.cost.job import PRICED_IN, counts_of, region_of
from piecework_orchestrator.cost.prices import load_prices
from piecework_orchestrator.reading.samples import ChunkSample, draw, read_each

#: Chunks of all these jobs that are read: two requests.
MOST_SAMPLED: Final = 200


async def usd_of_jobs(rt: Runtime, jobs: Sequence[Job]) -> dict[JobRef, float] | None:
    """Return about what each job has cost; None: a price of the region is not known."""
    prices, task = load_prices(None), TaskSize()
    region = region_of(rt) if rt.cost.trusted else PRICED_IN
    used, counted = await used_by(rt, jobs), await counts_by(rt, jobs)
    try:
        return {
            job.ref: bill.total(bill.call_lines(used[job.ref], prices))
            + bill.total(bill.aws_lines(counted[job.ref], prices, region, task))
            for job in jobs
        }
    except UsageError:
        return None


async def used_by(rt: Runtime, jobs: Sequence[Job]) -> dict[JobRef, CallUsage]:
    """Return about what the calls of each job used; joins that run are left out."""
    each = MOST_SAMPLED // max(1, len(jobs))
    drawn = {
        job.ref: draw(job, range(keys.partition_count(job.chunks)), each)
        for job in jobs
    }
    read = await read_each(rt, [ref for refs in drawn.values() for ref in refs])
    found = {}
    for job in jobs:
        own = [chunk for chunk in read if chunk.ref.of == job.ref]
        found[job.ref] = ChunkSample(own, job.chunks).calls.usage
        found[job.ref].merge(job.join_usage)
    return found


async def counts_by(rt: Runtime, jobs: Sequence[Job]) -> dict[JobRef, dict[str, int]]:
    """Return what was counted of each job, by all processes."""
    places = {
        (job.ref.pk, keys.cost_sk(actor)): job.ref
        for job in jobs
        for actor in get_args(Actor)
    }
    rows = await rt.table.get_many(places)
    return {
        job.ref: bill.sum_counts(
            counts_of(row) for place, row in rows.items() if places[place] == job.ref
        )
        for job in jobs
    }
