"""Compute the bill of the jobs below a job: those that its stages have started."""

from __future__ import annotations

from typing import Any

from piecework.domain.job import Job
from piecework.runtime import Runtime
from piecework.store.children import children_of
from piecework_orchestrator.cost.bill import TaskSize
from piecework_orchestrator.cost.job import job_bill
from piecework_orchestrator.cost.prices import Prices

SUMS = (
    *("jobs", "model_usd", "aws_usd", "total_usd"),
    *("unpriced", "lost_claims", "possibly_paid"),
)


async def bill_below(
    rt: Runtime, job: Job, prices: Prices, region: str, task: TaskSize
) -> dict[str, Any] | None:
    """Return the sums of all jobs below a job; None: it has started none.

    `jobs`: how many these are; `model_usd`, `aws_usd`, `total_usd`: their sums;
    `unpriced`: how many of them made calls of which no price is known;
    `lost_claims` and `possibly_paid`: claims, and calls at most, as of each job.

    Raises:
        UsageError: `config.price.missing`.
    """
    sums = dict.fromkeys(SUMS, 0)
    async for row in children_of(rt.table, job.ref):
        child = await rt.jobs.read(row.ref(job.ref))
        if child is None:
            continue
        bill = await job_bill(rt, child, prices, region, task)
        below = await bill_below(rt, child, prices, region, task)
        own = {
            "jobs": 1,
            "model_usd": bill["model_usd"] or 0.0,
            "aws_usd": bill["aws_usd"],
            "total_usd": bill["total_usd"],
            "unpriced": int(bill["model_usd"] is None),
            "lost_claims": bill["lost_claims"],
            "possibly_paid": bill["calls"]["possibly_paid"]["calls"],
        }
        for each in filter(None, (own, below)):
            sums = {name: sums[name] + each[name] for name in SUMS}
    return sums if sums["jobs"] else None
