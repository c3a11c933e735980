"""Compute what jobs have cost, for pages: without a known price there is no amount."""

from __future__ import annotations

from typing import Final

from piecework.domain.model import Job
from piecework.errors import UsageError
from piecework.runtime import Runtime
from piecework.store.paid import Paid
from piecework_orchestrator.cost.bill import TaskSize
from piecework_orchestrator.cost.job import job_bill, region_of
from piecework_orchestrator.cost.prices import load_prices
from piecework_orchestrator.job_documents import Document

#: The region whose prices apply on an emulator.
PRICED_IN: Final = "us-east-1"


async def bill_of(rt: Runtime, job: Job, known: Paid | None = None) -> Document | None:
    """Return the bill of a job; None: a price of its region is not known."""
    region = region_of(rt) if rt.cost.trusted else PRICED_IN
    try:
        return await job_bill(rt, job, load_prices(None), region, TaskSize(), known)
    except UsageError:
        return None
