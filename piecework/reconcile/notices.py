"""Dispatch pending notifications to a worker that has the pipeline."""

from __future__ import annotations

from collections import Counter

from piecework import keys
from piecework.model import Job, iso
from piecework.queue import Message
from piecework.reconcile.look import PassContext
from piecework.store.notices import PENDING, Notifications


async def dispatch_notifications(context: PassContext, job: Job) -> Counter[str]:
    """Dispatch due notifications; close an ended job after its last notification.

    A worker of another process gets the message of the join, because the chunks of the
    job may all have ended.
    """
    if not job.has_notify_hook:
        return Counter()
    rt = context.rt
    notices, now = Notifications(rt.table, rt.clock), iso(rt.clock())
    pending = [r for r in await notices.of(job.ref) if r["state"] == PENDING]
    if not pending and job.status.ended:
        return Counter({"job closed": int(await notices.close(job))})
    due = [row for row in pending if row["due_at"] <= now]
    join = job.ref.chunk(keys.JOIN_CHUNK)
    if not due or await context.take(join, job.gen):
        return Counter()
    again = rt.settings.redispatch_s
    sent = [row for row in due if await notices.mark_redispatched(row, again)]
    if sent:
        await rt.work.send([Message.about(join, job.gen)])
    return Counter({"notice sent": len(sent)})
