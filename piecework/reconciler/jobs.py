"""What the reconciler does for a job, by the job's status.

A chunk that a newer version has written is left to the reconciler of that version.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress

from piecework.aws.queue import Message
from piecework.domain import keys
from piecework.domain.job import SUBMIT_TIMEOUT_S, Job
from piecework.domain.moments import iso
from piecework.domain.refs import ChunkRef
from piecework.domain.states import CANCELLABLE, ChunkStatus, JobStatus
from piecework.errors import SchemaTooNewError, StateError
from piecework.jobs.cancellation import sweep
from piecework.jobs.deletion import delete_job
from piecework.jobs.fan_in import finish_cancel, start_join
from piecework.jobs.fan_out import fan_out
from piecework.jobs.renewal import renew_rows, renewal_is_due
from piecework.reconciler.chunks import (
    lease_wait_s,
    reconcile_chunk,
    reconcile_chunks,
    reconcile_paused,
    seconds_since_progress,
)
from piecework.reconciler.pass_state import Activity, PassContext
from piecework.runtime import Runtime
from piecework.store.cancellation import cancel_unclaimed
from piecework.store.completion import all_chunks, read_chunk
from piecework.store.deletions import RETENTION_ACTOR
from piecework.store.notifications import PENDING, Notifications

#: Rows and objects that a pass deletes of a job: about two seconds.
DELETED_IN_A_PASS = 5_000


async def reconcile_job(context: PassContext, job: Job) -> Counter[str]:
    """Do what the status, the deadline and the notifications of a job require."""
    context.activity[job.ref] = Activity(job)
    if job.status is not JobStatus.RUNNING:
        context.drawn.forget(job.ref)
        context.quiet.forget(job.ref)
    actions = await act_by_status(context, job)
    await context.send()
    if not job.status.gone and renewal_is_due(job, context.rt.clock()):
        await renew_rows(context.rt, job)
        actions["rows renewed"] += 1
    if actions["redispatched"]:
        facts = {"chunks": actions["redispatched"]}
        await context.rt.jobs.record(job.ref, "sent again", facts)
    return actions


async def act_by_status(  # noqa: PLR0911 -- one return for each state
    context: PassContext, job: Job
) -> Counter[str]:
    """Do what the status of a job requires; its messages are queued, or sent."""
    if job.status in CANCELLABLE and deadline_passed(job, context.rt):
        return await expire(context, job)
    match job.status:
        case JobStatus.SUBMITTING:
            return await finish_submit(context, job)
        case JobStatus.RUNNING:
            return await reconcile_chunks(context, job)
        case JobStatus.PAUSED:
            return await reconcile_paused(context, job)
        case JobStatus.FINALIZING:
            return await send_join(context, job)
        case JobStatus.CANCELLING:
            actions = await finish_cancelling(context, job)
            return actions + await dispatch_notifications(context, job)
        case JobStatus.REOPENING:
            return await finish_reopening(context.rt, job)
        case JobStatus.DELETING:
            return await finish_deletion(context.rt, job)
        case _:
            return await dispatch_notifications(context, job)


def deadline_passed(job: Job, rt: Runtime) -> bool:
    """Return whether the deadline of a job has passed."""
    return job.deadline is not None and job.deadline <= rt.clock()


async def finish_submit(context: PassContext, job: Job) -> Counter[str]:
    """Finish a submit that stopped half-way, from its manifest."""
    if seconds_since_progress(context.rt, job) < SUBMIT_TIMEOUT_S:
        return Counter()
    await fan_out(context.rt, job, context.progress)
    return Counter({"submit finished": 1})


async def finish_reopening(rt: Runtime, job: Job) -> Counter[str]:
    """Finish a retry that stopped half-way, with the chunks that it reopened."""
    if seconds_since_progress(rt, job) < SUBMIT_TIMEOUT_S:
        return Counter()
    await rt.transitions.reopened(job)
    return Counter({"reopening finished": 1})


async def finish_deletion(rt: Runtime, job: Job) -> Counter[str]:
    """Go on with a deletion by the retention, or with one that stopped half-way.

    One pass deletes a part, because the other jobs wait meanwhile.
    """
    ours = job.deletion.get("deleted_by") == RETENTION_ACTOR
    if not ours and seconds_since_progress(rt, job) < SUBMIT_TIMEOUT_S:
        return Counter()
    done = await delete_job(rt, job, most=DELETED_IN_A_PASS)
    return Counter({"job deleted": int(done), "deletion continued": int(not done)})


async def expire(context: PassContext, job: Job) -> Counter[str]:
    """Cancel and compensate a job whose deadline has passed.

    A job whose chunks have all ended runs its join: the deadline has nothing to stop.
    """
    rt = context.rt
    if job.status is JobStatus.RUNNING:
        # The join cannot start if a row is of a newer version, or the manifest does not
        # match. Then the job is cancelled below.
        with suppress(SchemaTooNewError, StateError):
            if join := await start_join(rt, job):
                await context.dispatch(job, *join)
                return Counter({"join started": 1})
    actions = Counter({"deadline passed": int(await rt.transitions.expire(job))})
    now = await rt.jobs.read(job.ref)
    if now is not None and now.status is JobStatus.CANCELLING:
        actions += await finish_cancelling(context, now, sweeps=True)
    return actions


async def finish_cancelling(
    context: PassContext, job: Job, *, sweeps: bool = False
) -> Counter[str]:
    """Cancel chunks that no worker owns any more; sweep if no other process does.

    These chunks have an expired lease, or were given back after their cancel request.
    The sweep of a large job takes long, and two at once would only hinder each other.
    The job ends once all its chunks have ended.
    """
    rt = context.rt
    actions: Counter[str] = Counter()
    newer: list[ChunkRef] = []
    async for chunk in all_chunks(rt.table, job.ref, job.chunks, newer):
        context.note(chunk)
        if chunk.has_direction or chunk.compensate_requested:
            actions += await reconcile_chunk(context, job, chunk)
            continue
        if chunk.status.ended or chunk.gen > job.gen:
            continue
        if chunk.status is not ChunkStatus.RUNNING:
            if chunk.is_cancel_requested:
                done = await cancel_unclaimed(rt.table, chunk, rt.clock())
                actions["cancelled"] += done
            continue
        if job.compensates_on_cancel:
            continue  # the sweep requests it; the next pass releases it, see above
        now = asyncio.get_running_loop().time()
        if not lease_wait_s(context, chunk, now):
            done = await cancel_unclaimed(rt.table, chunk, rt.clock())
            actions["expired lease cancelled"] += done
    if not sweeps and seconds_since_progress(rt, job) < SUBMIT_TIMEOUT_S:
        ended = await finish_cancel(rt, job.ref)
        return actions + Counter({"cancel ended": int(ended)})
    cancelled, asked = await sweep(rt, job)
    return actions + Counter({"cancelled": cancelled, "cancel requested": asked})


async def send_join(context: PassContext, job: Job) -> Counter[str]:
    """Dispatch the join of a job, if it is due."""
    rt = context.rt
    ref = job.ref.chunk(keys.JOIN_CHUNK)
    chunk = await read_chunk(rt.table, ref)
    if chunk is None:
        return Counter()
    context.note(chunk)
    return await reconcile_chunk(context, job, chunk)


# ── notifications ───────────────────────────────────────────────────────────


async def dispatch_notifications(context: PassContext, job: Job) -> Counter[str]:
    """Dispatch due notifications; close an ended job after its last notification.

    A worker of another process gets the message of the join: the chunks of the job may
    all have ended.
    """
    if not job.has_notify_hook:
        return Counter()
    rt = context.rt
    notifications, now = Notifications(rt.table, rt.clock), iso(rt.clock())
    pending = [r for r in await notifications.of(job.ref) if r.state == PENDING]
    if not pending and job.status.ended:
        return Counter({"job closed": int(await notifications.close(job))})
    due = [row for row in pending if row.due_at <= now]
    join = job.ref.chunk(keys.JOIN_CHUNK)
    if not due or await context.offer(join, job.gen):
        return Counter()
    again = rt.settings.redispatch_s
    sent = [row for row in due if await notifications.mark_redispatched(row, again)]
    if sent:
        await rt.work.send([Message.about(join, job.gen)], to=job.queue)
    return Counter({"notification dispatched": len(sent)})
