"""Pause a job whose budget is spent."""

from __future__ import annotations

from contextlib import suppress

from piecework import telemetry
from piecework.domain.pause import Pause
from piecework.domain.refs import JobRef
from piecework.domain.states import JobStatus
from piecework.errors import StoreError
from piecework.jobs.children import follow_children
from piecework.resilience.budget import BudgetKey
from piecework.runtime import Runtime
from piecework_worker.cancel_poller import apply_status
from piecework_worker.job_cache import JobCache
from piecework_worker.lease import LeaseRenewer


async def pause_for_budget(
    rt: Runtime,
    jobs: JobCache,
    renewer: LeaseRenewer,
    ref: JobRef,
    pause: Pause,
    key: BudgetKey,
    seen: int,
) -> None:
    """Pause a job, unless its budget has changed, and keep back its calls at once.

    `seen`: the number of the budget's record that showed it spent.
    """
    with suppress(StoreError):
        job = await jobs.fresh(ref)
        if job is not None and job.status is JobStatus.RUNNING:
            also = [rt.budgets.unchanged(key, seen)]
            if await rt.transitions.pause(job, pause, also):
                log = renewer.log
                telemetry.emit(log, "budget.spent", job=ref.job, message=pause.message)
                await follow_children(rt, ref)
            job = await jobs.fresh(ref)
        if job is not None:
            leases = renewer.leases.values()
            apply_status(job, [each for each in leases if each.claim.ref.of == ref])
