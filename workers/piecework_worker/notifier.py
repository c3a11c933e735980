"""Call a pipeline's notify hook for a job at least once.

A worker takes a notification for about one lease before it calls the hook. If the
worker dies, another one takes it. If the hook fails, the delay grows with each attempt.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from random import Random

from piecework import telemetry
from piecework.domain.job import Job
from piecework.domain.moments import moment
from piecework.domain.notification import (
    NotificationRow,
    NotifyFunction,
    read_notification,
)
from piecework.domain.states import CANCELLABLE, JobStatus
from piecework.errors.classify import classify
from piecework.pipelines import Pipeline
from piecework.runtime import Runtime
from piecework.store.notifications import PENDING, Notifications
from piecework_worker.work_item import MessageAction, WorkItem, hide_message

GIVEN_UP = "job.notification.failed"
#: Attempts per notification: fewer than the ten receives after which SQS moves a
#: message to the dead-letter queue.
MAX_ATTEMPTS = 6
#: A failed attempt is retried after up to `min(CAP_S, GROWTH**attempts)` seconds. The
#: first retries come soon. All together take five to eleven minutes, so that a restart
#: of the hook's receiver loses nothing.
GROWTH = 4.0
CAP_S = 300.0


async def notify_job(
    work_item: WorkItem,
    rt: Runtime,
    pipelines: Mapping[str, Pipeline],
    log: telemetry.Log,
) -> MessageAction | None:
    """Deliver a job's due notifications; None: the work item is for the join."""
    job = await rt.jobs.read(work_item.ref.of)
    if job is None or job.status is JobStatus.FINALIZING:
        return None
    if job.status in CANCELLABLE:
        return (
            MessageAction.DELETE
        )  # the job was reopened; its next end has a new notification
    wait = await deliver_due(job, pipelines, rt, log)
    if wait is None:
        return MessageAction.DELETE
    await hide_message(work_item, wait, rt.work)
    return MessageAction.KEEP


async def deliver_due(
    job: Job, pipelines: Mapping[str, Pipeline], rt: Runtime, log: telemetry.Log
) -> float | None:
    """Deliver the due notifications; return the seconds until the next, or None.

    A notification waits for all earlier ones, such as that of an earlier generation. So
    the hook gets the last end last. Close an ended job that has none pending.
    """
    notifications = Notifications(rt.table, rt.clock)
    while pending := [r for r in await notifications.of(job.ref) if r.state == PENDING]:
        wait = moment(pending[0].due_at) - rt.clock()
        if wait > 0:
            return wait
        notify = pipelines[job.pipeline].notify
        await deliver(pending[0], job, notify, notifications, rt, log)
    if job.status.ended:
        await notifications.close(job)
    return None


async def deliver(
    row: NotificationRow,
    job: Job,
    notify: NotifyFunction | None,
    notifications: Notifications,
    rt: Runtime,
    log: telemetry.Log,
) -> None:
    """Call the hook once, unless another worker has taken the notification."""
    settings = rt.settings
    taken = await notifications.take(row, settings.lease_s + settings.clock_skew_s)
    if taken is None:
        return
    if notify is None or taken.attempts > MAX_ATTEMPTS:
        reason = "each attempt died with its worker" if notify else "the hook is gone"
        await abandon(taken, reason, notifications, log)
        return
    try:
        async with asyncio.timeout(settings.lease_s):
            await notify(read_notification(job, taken))
    except Exception as error:  # noqa: BLE001 -- whatever a hook raises
        await on_delivery_failed(taken, error, notifications, rt.rng, log)
    else:
        await notifications.mark_delivered(taken)
        telemetry.emit(
            log,
            "notification.delivered",
            job=job.ref.job,
            about=taken.event,
        )


async def on_delivery_failed(
    row: NotificationRow,
    error: Exception,
    notifications: Notifications,
    rng: Random,
    log: telemetry.Log,
) -> None:
    """Postpone a failed notification, or abandon it after the last attempt."""
    failure = classify(error)
    reason, attempts = f"{failure.code}: {failure.message}", row.attempts
    telemetry.emit(
        log,
        "notification.failed",
        about=row.event,
        attempts=attempts,
        reason=reason,
    )
    if attempts >= MAX_ATTEMPTS:
        await abandon(row, reason, notifications, log)
        return
    delay = retry_delay_s(attempts, rng)
    await notifications.schedule_retry(row, delay, reason)


def retry_delay_s(attempts: int, rng: Random) -> float:
    """Return the seconds until a hook is called again that has failed so often."""
    cap = min(CAP_S, GROWTH**attempts)
    return rng.uniform(cap / 2, cap)


async def abandon(
    row: NotificationRow,
    reason: str,
    notifications: Notifications,
    log: telemetry.Log,
) -> None:
    """Abandon a notification, and emit the event that operators look for."""
    if await notifications.abandon(row, reason):
        telemetry.emit(
            log,
            "notification.abandoned",
            error_code=GIVEN_UP,
            about=row.event,
            reason=reason,
        )
