"""Tell a pipeline's notify hook what became of a job: at least once.

Whoever tells takes the notice for about a lease first. A worker that dies with it is
followed by another; a hook that fails is tried again, later each time.
"""

from __future__ import annotations

import asyncio

from piecework import telemetry
from piecework.classify import classify
from piecework.model import CANCELLABLE, Job, JobStatus, moment
from piecework.notice import read_notification
from piecework.store.notices import PENDING, Notifications
from piecework.store.table import Item
from workers.executor import MessageAction, WorkItem, hide_message
from workers.station import WorkerServices

GIVEN_UP = "job.notification.failed"
#: Tries of a notice; below the ten receives after which SQS sets a message aside.
MAX_ATTEMPTS = 6
#: A failed try is repeated after up to `min(CAP_S, GROWTH**tries)` seconds: soon at
#: first, and for ten minutes in all, so that a receiver's restart loses no notice.
GROWTH = 4.0
CAP_S = 300.0


async def notify_job(
    work_item: WorkItem, services: WorkerServices
) -> MessageAction | None:
    """Tell what there is to tell of a job; None: the turn is the join's own."""
    job = await services.rt.jobs.read(work_item.ref.of)
    if job is None or job.status is JobStatus.FINALIZING:
        return None
    if job.status in CANCELLABLE:
        return MessageAction.DISCARD  # taken up again; it is told of at its next end
    wait = await deliver_due(job, services)
    if wait is None:
        return MessageAction.DISCARD
    await hide_message(work_item, wait, services)
    return MessageAction.KEEP


async def deliver_due(job: Job, services: WorkerServices) -> float | None:
    """Deliver the notices that are due; return the seconds until the next is, if any.

    An ended job without any left is let go of.
    """
    notices = Notifications(services.rt.table, services.rt.clock)
    for row in await notices.of(job.ref):
        if row["state"] == PENDING:
            await deliver(row, job, notices, services)
    rows = await notices.of(job.ref)
    due = [moment(r["due_at"]) for r in rows if r["state"] == PENDING]
    if due:
        return max(0.0, min(due) - services.rt.clock())
    if job.status.ended:
        await notices.close(job)
    return None


async def deliver(
    row: Item, job: Job, notices: Notifications, services: WorkerServices
) -> None:
    """Call the hook, once, if nobody else is at it."""
    settings = services.rt.settings
    taken = await notices.take(row, settings.lease_s + settings.clock_skew_s)
    if taken is None:
        return
    notify = services.pipelines[job.pipeline].notify
    if notify is None or taken["attempts"] > MAX_ATTEMPTS:
        reason = "each try died with its worker" if notify else "there is no hook now"
        await abandon(taken, reason, notices, services)
        return
    try:
        async with asyncio.timeout(settings.lease_s):
            await notify(read_notification(job, taken))
    except Exception as error:  # noqa: BLE001 -- whatever a hook raises
        await on_delivery_failed(taken, error, notices, services)
    else:
        await notices.told(taken)
        telemetry.emit(
            services.log,
            "notification.delivered",
            job=job.ref.job,
            about=taken["event"],
        )


async def on_delivery_failed(
    row: Item, error: Exception, notices: Notifications, services: WorkerServices
) -> None:
    """Put a notice off that could not be delivered, or give it up."""
    failure = classify(error)
    reason, tries = f"{failure.code}: {failure.message}", row["attempts"]
    telemetry.emit(
        services.log,
        "notification.failed",
        about=row["event"],
        tries=tries,
        reason=reason,
    )
    if tries >= MAX_ATTEMPTS:
        await abandon(row, reason, notices, services)
        return
    cap = min(CAP_S, GROWTH**tries)
    await notices.put_off(row, services.rt.rng.uniform(cap / 2, cap), reason)


async def abandon(
    row: Item, reason: str, notices: Notifications, services: WorkerServices
) -> None:
    """Tell nobody any more, and say so where a person looks."""
    if await notices.give_up(row, reason):
        telemetry.emit(
            services.log,
            "notification.abandoned",
            error_code=GIVEN_UP,
            about=row["event"],
            reason=reason,
        )
