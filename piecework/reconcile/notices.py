"""See to it that a pipeline is told what became of its job, by a worker that has it."""

from __future__ import annotations

from collections import Counter

from piecework import keys
from piecework.model import Job, iso
from piecework.queue import Message
from piecework.reconcile.look import Look
from piecework.store.notices import PENDING, Notifications


async def hand_out(look: Look, job: Job) -> Counter[str]:
    """Give what is to be told to a worker; let go of an ended job once all is told.

    To a worker that is not beside us it goes as a message of the join: no chunk does
    anything any more.
    """
    if not job.has_notify_hook:
        return Counter()
    rt = look.rt
    notices, now = Notifications(rt.table, rt.clock), iso(rt.clock())
    pending = [r for r in await notices.of(job.ref) if r["state"] == PENDING]
    if not pending and job.status.ended:
        return Counter({"job closed": int(await notices.close(job))})
    due = [row for row in pending if row["due_at"] <= now]
    join = job.ref.chunk(keys.JOIN_CHUNK)
    if not due or await look.take(join, job.gen):
        return Counter()
    again = rt.settings.redispatch_s
    sent = [row for row in due if await notices.mark_redispatched(row, again)]
    if sent:
        await rt.work.send([Message.about(join, job.gen)])
    return Counter({"notice sent": len(sent)})
