"""A pass over the chunks of a job: release them, dispatch them again, end the job."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

from piecework.domain import keys
from piecework.domain.chunk import Chunk
from piecework.domain.job import SUBMIT_TIMEOUT_S, Job
from piecework.domain.moments import moment
from piecework.domain.refs import ChunkRef
from piecework.domain.states import ChunkStatus
from piecework.errors import StoreError
from piecework.jobs.budgeting import is_paused_by_budget, review_pause
from piecework.jobs.fan_in import start_finalizing
from piecework.jobs.fan_out import fan_out
from piecework.jobs.order import BlockedChunks, end_stopped_chunks
from piecework.jobs.pausing import redispatch
from piecework.jobs.sampling import end_sample
from piecework.jobs.tolerance import (
    cancel_all_unstarted,
    has_not_started,
    stop_exceeded,
)
from piecework.reconciler.liveness import wait_s
from piecework.reconciler.pass_state import PassContext, draw_lost_s
from piecework.reconciler.plan import (
    groups_to_read,
    plan_reads,
    read_numbers,
    reads_all,
    units_of,
)
from piecework.runtime import Runtime
from piecework.store.completion import chunks_of_group, read_chunks
from piecework.store.workers import note_takeover


def seconds_since_progress(rt: Runtime, job: Job) -> float:
    """Return the seconds since the last progress of a submit or reopen."""
    return rt.clock() - moment(job.progress_at)


async def reconcile_chunks(  # noqa: C901 -- one loop over the chunks
    context: PassContext, job: Job
) -> Counter[str]:
    """Reconcile every chunk that may be open; finish the job if all have ended."""
    rt = context.rt
    actions: Counter[str] = Counter()
    # The reopening process dispatches its chunks; `due` covers what it did not send.
    unsent = not (job.sent_at or job.reopened_at)
    if unsent and seconds_since_progress(rt, job) >= SUBMIT_TIMEOUT_S:
        await fan_out(rt, job, context.progress)
        return Counter({"submit finished": 1})
    if job.resume_is_unsent:
        return await finish_resume(context, job)
    stopped = await stop_exceeded(rt, job)
    held = job.holds_rest and not stopped
    newer: list[ChunkRef] = []
    order = BlockedChunks()
    reads = await choose_reads(context, job, held=held, stopped=stopped)
    awake = job.chunks - reads.drawn
    open_chunks = reads.waiting_long + awake
    may_be_skipped = job.has_waits and not (job.is_ordered or held)
    for group, numbers in reads.plan.items():
        unstarted: list[Chunk] = []
        long_waits = LongWaits(job)
        async for chunk in read_numbers(rt, job, group, numbers, newer):
            if held and chunk.ref.chunk not in job.sample:
                continue
            context.note(chunk)
            open_chunks += not chunk.status.ended
            long_waits.note(chunk)
            if stopped and has_not_started(chunk, job):
                unstarted.append(chunk)
            elif not (job.is_ordered and order.note(chunk)):
                actions += await reconcile_chunk(context, job, chunk)
        actions += await count_ended(context, job)
        cancelled = await cancel_all_unstarted(rt, unstarted)
        open_chunks -= cancelled
        actions["cancelled"] += cancelled
        partly_drawn = reads.drawn in keys.numbers_of(group, job.chunks)
        read_on = bool(newer) or partly_drawn or not may_be_skipped
        long_waits.end(context, group, unless=read_on)
        awake += long_waits.awake
    if order.blocked:
        actions += await continue_keys(context, job, order)
        if order.is_stopped and not newer:
            ended = await end_stopped_chunks(rt, job, reads.plan)
            actions["stopped chunks ended"] += ended
            open_chunks -= ended
    if open_chunks and may_be_skipped and not (awake or newer):
        context.quiet.jobs.add(job.ref)
    if open_chunks == 0 and not newer:
        actions += await on_all_ended(context, job, is_sample=held)
    return actions


class Reads(NamedTuple):
    """The chunks that a pass reads by group, of those before `drawn`.

    It does not read `waiting_long` open ones of them.
    """

    plan: dict[int, range]
    drawn: int
    waiting_long: int


async def choose_reads(
    context: PassContext, job: Job, *, held: bool, stopped: bool
) -> Reads:
    """Choose the chunks that may need this pass; note those that are not read."""
    rt = context.rt
    await note_backlog(context, job)
    whole = held or stopped or reads_all(job)
    drawn = job.chunks if whole else context.drawn.next_of(job)
    groups = await groups_to_read(rt.tallies, job, drawn)
    found = context.quiet.of(job, rt.clock())
    quiet = groups & found.keys()
    waiting_long = sum(found[group] for group in quiet)
    context.note_waiting_long(job.ref, waiting_long)
    groups -= quiet
    if held:
        groups &= {keys.group_of(chunk) for chunk in job.sample}
    context.leases.keep_only(job.ref, groups)
    plan = await plan_reads(rt.tallies, job, groups, drawn, whole=whole)
    context.note_plan(job, units_of(plan), undrawn=job.chunks - drawn)
    return Reads(plan, drawn, waiting_long)


@dataclass(slots=True)
class LongWaits:
    """Whether the open chunks of a group all wait in the index, and the first time.

    Attributes:
        due_at: The first time; empty without a long wait, or if another chunk is open.
        open: The chunks of the group that have not ended.
    """

    job: Job
    due_at: str = ""
    open: int = 0
    awake: bool = False

    def note(self, chunk: Chunk) -> None:
        """Add a chunk that was read."""
        if chunk.status.ended:
            return
        self.open += 1
        rests = chunk.status is ChunkStatus.WAITING and bool(chunk.due_at)
        self.awake = self.awake or not rests
        first = min(filter(None, (self.due_at, chunk.due_at)), default="")
        self.due_at = "" if self.awake else first

    def end(self, context: PassContext, group: int, *, unless: bool) -> None:
        """Record whether the group needs no read until its first chunk is due."""
        due_at = "" if unless else self.due_at
        context.quiet.note(self.job, group, due_at, self.open, context.rt.clock())


async def on_all_ended(
    context: PassContext, job: Job, *, is_sample: bool
) -> Counter[str]:
    """Start the join of a job whose chunks have ended; or end its sample."""
    if is_sample:
        return Counter({"sample ended": int(await end_sample(context.rt, job))})
    started = await start_finalizing(context.rt, job.ref)
    if started is not None:
        await context.dispatch(job, *started)
    return Counter({"join started": int(started is not None)})


async def continue_keys(
    context: PassContext, job: Job, order: BlockedChunks
) -> Counter[str]:
    """Start the chunks that wait in vain: a process died before it unblocked them."""
    chunks = await order.repair(context.rt, job.ref)
    for chunk in chunks:
        await context.dispatch(job, chunk.ref, chunk.gen)
    return Counter({"unblocked": len(chunks)})


async def finish_resume(context: PassContext, job: Job) -> Counter[str]:
    """Finish a resume that stopped half-way: send the messages of open chunks."""
    if seconds_since_progress(context.rt, job) < SUBMIT_TIMEOUT_S:
        return Counter()
    await redispatch(context.rt, job.ref, context.progress)
    return Counter({"resume finished": 1})


async def reconcile_paused(context: PassContext, job: Job) -> Counter[str]:
    """Release the expired leases of a paused job; dispatch only what compensates."""
    actions: Counter[str] = Counter()
    running = 0
    groups = await groups_to_read(context.rt.tallies, job, job.chunks)
    context.leases.keep_only(job.ref, groups)
    for group in sorted(groups):
        async for chunk in chunks_of_group(context.rt.table, job.ref, group, []):
            running += chunk.status is ChunkStatus.RUNNING
            if chunk.has_direction:
                actions += await reconcile_chunk(context, job, chunk)
            elif chunk.status is ChunkStatus.RUNNING:
                actions += await release_expired(context, chunk)
    if not running and is_paused_by_budget(job):
        actions["budget recounted"] += await review_pause(context.rt, job)
    return actions


async def release_expired(context: PassContext, chunk: Chunk) -> Counter[str]:
    """Release the lease of a chunk if its owner has died."""
    rt, now = context.rt, asyncio.get_running_loop().time()
    if (wait := lease_wait_s(context, chunk, now)) > 0:
        context.rechecks.note(chunk.ref, now + wait)
        return Counter()
    if not await rt.takeovers.release_expired(chunk):
        return Counter()
    with suppress(StoreError):  # a hint for operators
        await note_takeover(rt.table, chunk.claimed_by, rt.clock())
    group = keys.group_of(chunk.ref.chunk)
    context.released.setdefault(chunk.ref.of, set()).add(group)
    return Counter({"expired lease released": 1})


def lease_wait_s(context: PassContext, chunk: Chunk, now: float) -> float:
    """Return for how many seconds the owner of a chunk may still be alive."""
    rt = context.rt
    ends_at = moment(chunk.claim_expires_at) if chunk.claim_expires_at else inf
    return wait_s(
        context.leases.unchanged_for(chunk, now),
        ends_at - rt.clock(),
        lease_s=rt.settings.lease_s,
        skew_s=rt.settings.clock_skew_s,
    )


async def recheck(context: PassContext, job: Job, refs: list[ChunkRef]) -> Counter[str]:
    """Look again at chunks whose worker may be gone by now."""
    actions: Counter[str] = Counter()
    for chunk in await read_chunks(context.rt.table, refs):
        actions += await reconcile_chunk(context, job, chunk)
    actions += await count_ended(context, job)
    await context.send()
    return actions


async def count_ended(context: PassContext, job: Job) -> Counter[str]:
    """Count the ended chunks beside those that were released: no worker may have.

    Otherwise the worker that ends the last chunk would not see that it is the last, and
    the join would wait for the next pass.
    """
    rt, actions = context.rt, Counter[str]()
    for group in sorted(context.released.pop(job.ref, ())):
        ended = [
            chunk.ref.chunk
            async for chunk in chunks_of_group(rt.table, job.ref, group, [])
            if chunk.status.ended and not chunk.ref.is_join
        ]
        full = await rt.tallies.add(job.ref, group, ended, job.chunks)
        if full and not job.holds_rest:
            actions += await on_all_ended(context, job, is_sample=False)
    return actions


async def note_backlog(context: PassContext, job: Job) -> None:
    """Read how far the backlog of a job is drawn; without its row it is drawn."""
    if job.backlog_start is None or job.holds_rest:
        return
    backlog = await context.rt.backlogs.of_job(job)
    if backlog is None and job.reopened_at:
        context.drawn.forget(job.ref)
        return
    drawn = job.chunks if backlog is None else min(backlog.next, job.chunks)
    now, lost_s = asyncio.get_running_loop().time(), draw_lost_s(context.rt.settings)
    context.drawn.note(job, drawn, now, lost_s)


async def reconcile_chunk(context: PassContext, job: Job, chunk: Chunk) -> Counter[str]:
    """Dispatch a chunk again if its lease expired or its message is overdue."""
    rt = context.rt
    context.overdue.note(job, chunk, rt.clock())
    if chunk.status is ChunkStatus.RUNNING:
        released = await release_expired(context, chunk)
        if released:
            await context.dispatch(job, chunk.ref, chunk.gen)
        return released
    context.leases.forget_chunk(chunk.ref)
    context.rechecks.forget_chunk(chunk.ref)
    if chunk.status.ended or not due(chunk, job, context):
        return Counter()
    if not await rt.takeovers.mark_redispatched(chunk):
        return Counter()
    await context.dispatch(job, chunk.ref, chunk.gen)
    return Counter({"redispatched": 1})


def due(chunk: Chunk, job: Job, context: PassContext) -> bool:
    """Return whether a waiting chunk should have been claimed by now."""
    rt = context.rt
    if chunk.redispatch_at:
        return moment(chunk.redispatch_at) <= rt.clock()
    if in_backlog(chunk, job) and context.drawn.knows(job.ref):
        lost_at = context.drawn.lost_at(chunk, draw_lost_s(rt.settings))
        if asyncio.get_running_loop().time() >= lost_at:
            return True
        if lost_at < inf:
            context.rechecks.note(chunk.ref, lost_at)
        return False
    # A reopened chunk may never have been sent; a join is sent once. Both are sent
    # again soon, the join as a chunk of its dead worker would be.
    after_s = rt.settings.redispatch_s
    if job.reopened_at:
        after_s = SUBMIT_TIMEOUT_S
    if chunk.ref.is_join:
        after_s = min(SUBMIT_TIMEOUT_S, rt.settings.lease_s)
    return seconds_since_progress(rt, job) >= after_s


def in_backlog(chunk: Chunk, job: Job) -> bool:
    """Return whether a chunk was in the backlog of its job, and was never claimed."""
    start, is_new = job.backlog_start, chunk.status is ChunkStatus.PENDING
    return start is not None and is_new and chunk.ref.chunk >= start
