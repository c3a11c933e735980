"""Raise the budget of a job, and correct it by the record of its calls.

spent        A worker pauses the job: RUNNING -> PAUSED, with the code `budget`.
cap raised   PAUSED -> RUNNING, by the process that raises it.
next day     A daily budget of the tenant paused the job: a reconciler resumes it.
worker lost  Its slice stays counted. Once the job is paused and no chunk of it runs, a
             reconciler reads what its calls used. If that is less, it resumes the job.
"""

from __future__ import annotations

from piecework.domain.budget import Cap
from piecework.domain.job import Job
from piecework.domain.moments import iso
from piecework.domain.pause import Pause, PauseCode
from piecework.errors import UsageError
from piecework.jobs.children import follow_children
from piecework.jobs.fan_out import Progress
from piecework.jobs.pausing import resume_job
from piecework.resilience.budget import key_of_job, key_of_tenant, recounted
from piecework.resilience.limits import micros
from piecework.runtime import Runtime
from piecework.store.children import has_children
from piecework.store.fleet_events import fleet_event
from piecework.store.paid import in_budget, paid_by
from piecework.store.table import Item


async def set_budget(
    rt: Runtime,
    job: Job,
    cap: Cap,
    *,
    actor: str,
    reason: str,
    progress: Progress = lambda *_: None,
) -> None:
    """Set the cap of a job's budget; resume the job if the budget has paused it.

    A cap that is spent already resumes nothing: the next call would pause it again.
    Nor does it end a pause by the tenant's daily budget.

    Raises:
        UsageError: `job.budget.none`: the job has no budget of that kind;
            `job.budget.of_root`: it spends that of the job at the top.
    """
    if job.parent is not None:
        message = f"Job {job.ref.job} spends the budget of job {job.payer.job}."
        step = (
            f"`piecework jobs set-budget {job.payer.job} --budget-{job.budget.unit} N`"
        )
        raise UsageError(message, code="job.budget.of_root", next_step=step)
    for name in ("tokens", "nano_usd"):
        if getattr(cap, name) is not None and getattr(job.budget, name) is None:
            what = "tokens" if name == "tokens" else "dollars"
            message = f"Job {job.ref.job} was submitted without a budget in {what}."
            step = (
                f"`piecework jobs set-budget {job.ref.job} "
                f"--budget-{job.budget.unit} N`"
            )
            raise UsageError(
                message, code="job.budget.none", next_step=step if job.budget else ""
            )
    await rt.budgets.set_cap(key_of_job(job.ref), cap, actor)
    told = {"actor": actor, "budget": cap.text(), "reason": reason}
    await rt.jobs.record(job.ref, "budget set", told)
    job = await rt.jobs.read(job.ref) or job
    if not is_paused_by_budget(job) or is_paused_by_day(job):
        return
    if not await is_spent(rt, job):
        await resume_job(rt, job, actor, reason or "the budget was set", progress)
        await follow_children(rt, job.ref)


async def set_tenant_budget(
    rt: Runtime, tenant: str, cap: Cap, *, actor: str, reason: str = ""
) -> Item:
    """Set what all jobs of a tenant may spend in a day; return the row.

    Without a cap, the tenant has no daily budget any more. Jobs that it had paused are
    resumed.
    """
    await rt.budgets.set_cap(key_of_tenant(tenant), cap, actor)
    told = {"actor": actor, "budget": cap.text(), "reason": reason}
    event = "daily budget set"
    await rt.table.transact([fleet_event(rt.table, tenant, event, rt.clock(), told)])
    async for ref in rt.jobs.active():
        job = await rt.jobs.read(ref) if ref.tenant == tenant else None
        if job is not None and is_paused_by_day(job):
            await resume_job(rt, job, actor, "the daily budget was set")
    return await rt.budgets.row_of_tenant(tenant) or {}


def is_paused_by_budget(job: Job) -> bool:
    """Return whether a job is paused because its budget is spent."""
    return job.pause is not None and job.pause.code == PauseCode.BUDGET


def is_paused_by_day(job: Job) -> bool:
    """Return whether a job is paused because the budget of its tenant is spent."""
    return is_paused_by_budget(job) and job.pause is not None and bool(job.pause.until)


async def is_spent(rt: Runtime, job: Job) -> bool:
    """Return whether a job has a budget of its own, and nothing is left of it."""
    budget = await rt.budgets.of_job(job)
    if budget is None:
        return False
    return budget.is_spent(micros(rt.clock()))


async def review_pause(rt: Runtime, job: Job) -> bool:
    """Resume a job whose daily budget has begun anew, or recount its own budget.

    A budget is recounted after a worker was lost, once in a pause. No chunk of the job
    may run meanwhile: only then the record has all that their calls used. Return
    whether the job was resumed.
    """
    budget, pause = await rt.budgets.of_job(job), job.pause
    if pause is not None and pause.until:
        return await resume_after_day(rt, job, pause)
    if budget is None or pause is None or budget.recounted_pause == pause.at:
        return False
    now = micros(rt.clock())
    uncertain = budget.uncertain(now)
    if not uncertain or budget.reserved(now):
        return False
    if job.parent is not None or await has_children(rt.table, job.ref):
        # The record of this job lacks the calls of its children: what a lost worker
        # may have spent stays counted.
        return False
    paid = await paid_by(rt.table, job)
    # A claim that was not repeated yet may have paid for calls that no record has.
    recorded, unrecorded = in_budget(paid)
    most = uncertain if paid.unrepeated else unrecorded
    # What workers have reported is spent, even if the record of the calls lacks it.
    spent = recorded.at_least(budget.spent)
    after = recounted(budget, spent, most, now, pause.at)
    reply = await rt.budgets.write(key_of_job(job.ref), budget.seq, after)
    counted = budget.spent + uncertain
    less = counted - (after.spent + after.uncertain(now))
    if not reply.ours or not (less.tokens > 0 or less.nano_usd > 0):
        return False
    reason = "less is spent than a lost worker had reserved"
    return await resume_job(rt, job, "reconciler", reason)


async def resume_after_day(rt: Runtime, job: Job, pause: Pause) -> bool:
    """Resume a job that a daily budget has paused, on the next day or with a new cap.

    The process that sets a cap may die before it has resumed the jobs.
    """
    row = await rt.budgets.row_of_tenant(job.ref.tenant) or {}
    if iso(rt.clock()) >= pause.until:
        return await resume_job(rt, job, "reconciler", "a new day has begun")
    if str(row.get("set_at", "")) > pause.at:
        return await resume_job(rt, job, "reconciler", "the daily budget was set")
    return False
