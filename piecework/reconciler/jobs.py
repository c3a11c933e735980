"""What the reconciler does about a job, by the state that it finds it in.

Chunks that a newer version has begun are its own reconciler's to see to.
"""

from __future__ import annotations

import asyncio
from collections import Counter

from piecework.aws.queue import Message
from piecework.domain import keys
from piecework.domain.model import (
    CANCELLABLE,
    Chunk,
    ChunkRef,
    ChunkStatus,
    Job,
    JobStatus,
    iso,
    moment,
)
from piecework.jobs.cancellation import sweep
from piecework.jobs.fan_in import start_finalizing
from piecework.jobs.fan_out import fan_out
from piecework.reconciler.pass_state import PassContext
from piecework.runtime import Runtime
from piecework.store.cancellation import cancel_unclaimed
from piecework.store.completion import (
    Tallies,
    all_chunks,
    chunks_of_group,
    read_chunk,
)
from piecework.store.notifications import PENDING, Notifications
from piecework.store.reclaim import Reclaimer

#: Seconds without a sign of life after which a submit counts as stopped half-way.
SUBMIT_TIMEOUT_S = 30.0


async def reconcile_job(  # noqa: PLR0911 -- a return a state
    look: PassContext, job: Job
) -> Counter[str]:
    """Do what the state of a job, its deadline and its notices ask for."""
    if job.status in CANCELLABLE and deadline_passed(job, look.rt):
        return await expire(look, job)
    match job.status:
        case JobStatus.SUBMITTING:
            return await finish_submit(look, job)
        case JobStatus.RUNNING:
            return await reconcile_chunks(look, job)
        case JobStatus.FINALIZING:
            return await send_join(look, job)
        case JobStatus.CANCELLING:
            actions = await finish_cancelling(look, job)
            return actions + await dispatch_notifications(look, job)
        case JobStatus.RESUMING:
            return await finish_resume(look.rt, job)
        case _:
            return await dispatch_notifications(look, job)


def deadline_passed(job: Job, rt: Runtime) -> bool:
    """Say whether a job should have ended by now."""
    return job.deadline is not None and job.deadline <= rt.clock()


async def finish_submit(look: PassContext, job: Job) -> Counter[str]:
    """Finish a submit that stopped half-way, from its manifest."""
    if quiet_for(look.rt, job) < SUBMIT_TIMEOUT_S:
        return Counter()
    await fan_out(look.rt, job, look.progress)
    return Counter({"submit finished": 1})


async def finish_resume(rt: Runtime, job: Job) -> Counter[str]:
    """Let a job run on whose resume stopped half-way: with what it had reopened."""
    if quiet_for(rt, job) < SUBMIT_TIMEOUT_S:
        return Counter()
    await rt.transitions.resume(job)
    return Counter({"resume finished": 1})


def quiet_for(rt: Runtime, job: Job) -> float:
    """Return for how long nobody has been seen to hand out a job's work."""
    return rt.clock() - moment(job.progress_at)


async def expire(look: PassContext, job: Job) -> Counter[str]:
    """Cancel a job whose deadline has passed, and undo what its chunks have done."""
    rt = look.rt
    acts = Counter({"deadline passed": int(await rt.transitions.expire(job))})
    now = await rt.jobs.read(job.ref)
    if now is not None and now.status is JobStatus.CANCELLING:
        acts += await finish_cancelling(look, now)
    return acts


async def finish_cancelling(look: PassContext, job: Job) -> Counter[str]:
    """Sweep again; cancel what a dead worker holds; end the job when all have ended."""
    rt = look.rt
    acts: Counter[str] = Counter()
    newer: list[ChunkRef] = []
    async for chunk in all_chunks(rt.table, job.ref, job.chunks, newer):
        if chunk.has_direction or chunk.compensate_requested:
            acts += await look_at(look, job, chunk)
            continue
        if chunk.status is not ChunkStatus.RUNNING or chunk.gen > job.gen:
            continue
        if job.compensates_on_cancel:
            continue  # the sweep asks for it; once asked it is given back, see above
        now = asyncio.get_running_loop().time()
        if look.sightings.unchanged_for(chunk, now) >= rt.settings.lease_s:
            done = await cancel_unclaimed(rt.table, chunk, rt.clock())
            acts["dead lease cancelled"] += done
    cancelled, asked = await sweep(rt, job)
    return acts + Counter({"cancelled": cancelled, "asked to stop": asked})


async def send_join(look: PassContext, job: Job) -> Counter[str]:
    """Send the join of a job whose finisher died with it."""
    rt = look.rt
    ref = job.ref.chunk(keys.JOIN_CHUNK)
    chunk = await read_chunk(rt.table, ref)
    return Counter() if chunk is None else await look_at(look, job, chunk)


async def reconcile_chunks(look: PassContext, job: Job) -> Counter[str]:
    """Reconcile every chunk that may be open; finish the job if all have ended."""
    rt = look.rt
    acts: Counter[str] = Counter()
    # What was reopened is sent by whoever did it, else chunk by chunk: see `due`.
    unsent = not (job.sent_at or job.reopened_at)
    if unsent and quiet_for(rt, job) >= SUBMIT_TIMEOUT_S:
        await fan_out(rt, job, look.progress)
        return Counter({"submit finished": 1})
    open_chunks = 0
    newer: list[ChunkRef] = []
    groups = await groups_to_read(rt.tallies, job)
    look.sightings.keep_only(job.ref, groups)
    for group in sorted(groups):
        async for chunk in chunks_of_group(rt.table, job.ref, group, newer):
            open_chunks += not chunk.status.terminal
            acts += await look_at(look, job, chunk)
    if open_chunks == 0 and not newer:
        begun = await start_finalizing(rt, job.ref)
        if begun is not None:
            await look.dispatch(*begun)
            acts["finish begun"] += 1
    return acts


async def look_at(look: PassContext, job: Job, chunk: Chunk) -> Counter[str]:
    """Send a chunk again that nobody works on and no message speaks for any more."""
    rt = look.rt
    look.overdue.note(job, chunk, rt.clock())
    rescue = Reclaimer(rt.table, rt.settings, rt.clock)
    if chunk.status is ChunkStatus.RUNNING:
        now = asyncio.get_running_loop().time()
        if look.sightings.unchanged_for(chunk, now) < rt.settings.lease_s:
            return Counter()
        if not await rescue.release_expired(chunk):
            return Counter()
        await look.dispatch(chunk.ref, chunk.gen)
        return Counter({"dead lease given back": 1})
    look.sightings.forget_chunk(chunk.ref)
    if chunk.status.terminal or not due(chunk, job, rt):
        return Counter()
    if not await rescue.mark_redispatched(chunk):
        return Counter()
    await rt.work.send([Message.about(chunk.ref, chunk.gen)])
    return Counter({"sent again": 1})


def due(chunk: Chunk, job: Job, rt: Runtime) -> bool:
    """Say whether a waiting chunk should have been picked up by now."""
    if chunk.redispatch_at:
        return moment(chunk.redispatch_at) <= rt.clock()
    # Reopened and perhaps never sent, or a join that nobody took up: soon made up for.
    soon = bool(job.reopened_at) or chunk.ref.is_join
    return quiet_for(rt, job) >= (
        SUBMIT_TIMEOUT_S if soon else rt.settings.redispatch_s
    )


# The groups of a running job that may contain chunks that have not ended.


async def groups_to_read(tallies: Tallies, job: Job) -> set[int]:
    """Return the groups of a job without those that are full by its tallies.

    Tallies are used only in the first generation, where an ended chunk stays ended. In
    a later one a late process may still add a chunk that was reopened since.
    """
    groups = set(range(keys.partition_count(job.chunks)))
    if job.gen > 1 or len(groups) == 1:
        return groups
    groups -= job.full_groups
    for block in range(keys.block_count(job.chunks)):
        first = block * keys.BLOCK_SIZE
        if block in job.full_blocks:
            groups -= set(range(first, first + keys.BLOCK_SIZE))
        elif keys.block_count(job.chunks) > 1:
            groups -= await tallies.full_groups_of_block(job.ref, block)
    return groups


# Dispatch pending notifications to a worker that has the pipeline.


async def dispatch_notifications(context: PassContext, job: Job) -> Counter[str]:
    """Dispatch due notifications; close an ended job after its last notification.

    A worker of another process gets the message of the join, because the chunks of the
    job may all have ended.
    """
    if not job.has_notify_hook:
        return Counter()
    rt = context.rt
    notices, now = Notifications(rt.table, rt.clock), iso(rt.clock())
    pending = [r for r in await notices.of(job.ref) if r.state == PENDING]
    if not pending and job.status.ended:
        return Counter({"job closed": int(await notices.close(job))})
    due = [row for row in pending if row.due_at <= now]
    join = job.ref.chunk(keys.JOIN_CHUNK)
    if not due or await context.take(join, job.gen):
        return Counter()
    again = rt.settings.redispatch_s
    sent = [row for row in due if await notices.mark_redispatched(row, again)]
    if sent:
        await rt.work.send([Message.about(join, job.gen)])
    return Counter({"notice sent": len(sent)})
