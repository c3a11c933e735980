"""Compute the bill of the jobs below a job: those that its stages have started."""

from __future__ import annotations

from typing import Any

from piecework.domain.job import Job
from piecework.runtime import Runtime
from piecework.store.children import children_of
from piecework_orchestrator.cost.bill import TaskSize
from piecework_orchestrator.cost.job import job_bill
from piecework_orchestrator.cost.prices import Prices


async def bill_below(
    rt: Runtime, job: Job, prices: Prices, region: str, task: TaskSize
) -> dict[str, Any] | None:
    """Return the sums of all jobs below a job; None: it has started none.

    `jobs`: how many these are; `model_usd`, `aws_usd`, `total_usd`: their sums;
    `unpriced`: how many of them made calls of which no price is known.

    Raises:
        UsageError: `config.price.missing`.
    """
    jobs, unpriced, model_usd, aws_usd = 0, 0, 0.0, 0.0
    async for row in children_of(rt.table, job.ref):
        child = await rt.jobs.read(row.ref(job.ref))
        if child is None:
            continue
        bill = await job_bill(rt, child, prices, region, task)
        below = await bill_below(rt, child, prices, region, task)
        jobs += 1
        unpriced += bill["model_usd"] is None
        model_usd += bill["model_usd"] or 0.0
        aws_usd += bill["aws_usd"]
        if below is not None:
            jobs, unpriced = jobs + below["jobs"], unpriced + below["unpriced"]
            model_usd += below["model_usd"]
            aws_usd += below["aws_usd"]
    if not jobs:
        return None
    return {
        "jobs": jobs,
        "model_usd": model_usd,
        "aws_usd": aws_usd,
        "total_usd": model_usd + aws_usd,
        "unpriced": unpriced,
    }
