"""Reopen a job that was cancelled, or that ended without some of its results.

    job -> REOPENING, next generation -> tallies -> chunks -> RUNNING -> messages

Chunks that have a result keep it. The other chunks continue at their first stage that
is not complete. So complete stages and paid calls are not repeated. The same operator
can repeat an interrupted command at once; otherwise the reconciler finishes it. Another
command waits, because the end of a reopening is the end for all that take part.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from piecework.aws.queue import Message, batches
from piecework.domain import keys
from piecework.domain.call_usage import CallUsage
from piecework.domain.child import PARENT_CANCELLED_CODE
from piecework.domain.chunk import Chunk
from piecework.domain.dead_letter import DeadLetterRow
from piecework.domain.job import DEADLINE_CODE, SUBMIT_TIMEOUT_S, Job
from piecework.domain.moments import iso, moment
from piecework.domain.refs import ChunkRef, JobRef
from piecework.domain.states import ChunkStatus, JobStatus
from piecework.errors import NotFoundError, UsageError
from piecework.jobs.fan_in import start_finalizing
from piecework.jobs.fan_out import (
    Counter,
    Progress,
    ProgressMark,
    fan_out,
    pause_with_pipeline,
)
from piecework.runtime import Runtime
from piecework.store.children import children_of
from piecework.store.compensations import FailedCompensation
from piecework.store.completion import all_chunks, read_chunk
from piecework.store.dead_letters import OPEN, Closing, is_open
from piecework.store.paid import usage_of
from piecework.store.reopen import (
    Patched,
    Reopening,
    Restart,
    Schedule,
    reopen_chunk,
)
from piecework.store.table import ItemWrite
from piecework_orchestrator.operate.run_again import (
    RunAgain,
    require_stage,
    restart_of,
)
from piecework_orchestrator.reading.job_documents import (
    dead_letters_of,
    job_facts,
    pause_command,
    require_not_deleted,
)
from piecework_orchestrator.reading.selection import left_out

#: The code of a reopening that ended before all its chunks were reopened.
INCOMPLETE = "job.retry.incomplete"
#: The ends of chunks without a result.
WITHOUT_RESULT = frozenset({ChunkStatus.DEAD, ChunkStatus.CANCELLED})


@dataclass(frozen=True, slots=True)
class RetryRequest:
    """A retry or a redrive of a job, as the operator requested it.

    Attributes:
        deadline: A new deadline in epoch seconds. Without it a future deadline stays in
            force. A deadline that has passed is removed, because it would cancel the
            job again at once.
        rate: Chunks dispatched a second; None: all at once.
        again: The completed stage from which chunks run again; None: they keep all.
        statuses: The ends that a chunk must have to be reopened.
        progress: Called with each step, as by a submit: read, written, sent.
    """

    ref: JobRef
    actor: str
    reason: str
    deadline: float | None = None
    rate: float | None = None
    progress: Progress = lambda *_: None
    again: RunAgain | None = None
    statuses: frozenset[ChunkStatus] = WITHOUT_RESULT

    @property
    def closing(self) -> Closing:
        """The actor and the reason that close the dead letters."""
        return Closing(self.actor, self.reason)


@dataclass(frozen=True, slots=True)
class ReopenRequest:
    """A chunk to reopen.

    Attributes:
        letter: Its open dead letter, which is closed in the same transaction.
        patched: Its new payload; None: the payload stays.
        compensation: The failed compensation that it runs again; None: it goes forward.
        restart: The completed stages that run again; None: it keeps all.
    """

    chunk: Chunk
    letter: DeadLetterRow | None = None
    patched: Patched | None = None
    compensation: FailedCompensation | None = None
    restart: Restart | None = None


async def retry(
    rt: Runtime, request: RetryRequest, unreadable: list[ChunkRef] | None = None
) -> tuple[int, int]:
    """Reopen every chunk that has no result; return how many, and the generation.

    Chunks whose dead letter was discarded stay dead. So do those whose open dead letter
    is damaged: they are added to `unreadable`.

    Raises:
        NotFoundError: `job.record.not_found`.
        PermanentError: `runtime.record.unreadable`: a dead letter, and `unreadable` is
            None.
        UsageError: `job.state.not_finished`; `job.retry.nothing_left`: no chunk is
            left to reopen, and the join has run; `job.retry.in_progress`,
            `job.retry.incomplete`; what `restart_of` raises, before a change.
    """
    job = await require_reopenable(rt, request)
    if request.again is not None:
        request.again.check()
        require_stage(job, request.again.stage)
    await retry_children(rt, job, request)
    to_reopen, damaged, _ = await find_to_reopen(rt, job, request)
    if unreadable is None:
        for letter in damaged:
            DeadLetterRow.read(letter.item)  # raises again
    left = [letter.ref for letter in damaged]
    if not to_reopen and job.status in {JobStatus.PARTIAL, JobStatus.SUCCEEDED}:
        raise nothing_left(job, left)
    if unreadable is not None:
        unreadable += left
    reopened, gen = await reopen(rt, job, to_reopen, request, "retried")
    return len(reopened), gen


async def retry_children(rt: Runtime, job: Job, request: RetryRequest) -> None:
    """Retry the children that were cancelled with a job, before the job itself.

    Its stages find them at work then. A child that was reopened after the cancel of its
    parent is not cancelled by it again. If this command dies, a second one continues.

    Raises:
        UsageError: `job.state.not_finished`: a child has not ended its cancel.
    """
    async for row in children_of(rt.table, job.ref):
        child = await rt.jobs.read(row.ref(job.ref))
        if child is not None and child.status is JobStatus.CANCELLING:
            message = f"Child job {row.job} of job {job.ref.job} is still CANCELLING."
            step = (
                f"`piecework jobs watch {row.job}`; repeat the command after its end."
            )
            raise UsageError(message, code="job.state.not_finished", next_step=step)
        if child is None or child.status is not JobStatus.CANCELLED:
            continue
        if child.cancel_code in {PARENT_CANCELLED_CODE, DEADLINE_CODE}:
            below = RetryRequest(
                *(child.ref, request.actor, request.reason, request.deadline)
            )
            await retry(rt, below, [])


async def find_to_reopen(
    rt: Runtime, job: Job, request: RetryRequest
) -> tuple[list[ReopenRequest], list[DeadLetterRow], int]:
    """Return the chunks to reopen, the damaged letters of others, and what stays dead.

    The last value counts the chunks whose dead letter was discarded.
    """
    unread: list[DeadLetterRow] = []
    # A large job may have very many chunks to reopen: only what is needed is kept.
    letters = {
        (letter.chunk, letter.gen): letter.to_close()
        async for letter in dead_letters_of(rt).of_job(request.ref, unread)
    }
    damaged = {(letter.chunk, letter.gen): letter for letter in unread}
    letters |= damaged
    to_reopen, left, discarded = list[ReopenRequest](), list[DeadLetterRow](), 0
    join = damaged.get((keys.JOIN_CHUNK, job.gen))
    if join is not None and is_open(join.item):
        left.append(join)
    async for chunk in all_chunks(rt.table, request.ref, job.chunks):
        name = (chunk.ref.chunk, chunk.gen)
        letter = letters.get(name)
        ended = chunk.status in request.statuses
        closed = letter is not None and not is_open(letter.item)
        if not ended:
            continue
        if closed or chunk.is_skipped:
            discarded += 1
        elif name in damaged:
            left.append(damaged[name])
        else:
            again, actor = request.again, request.actor
            restart = await restart_of(rt, job, chunk, again, actor) if again else None
            one = ReopenRequest(chunk.to_reopen(), letter, restart=restart)
            to_reopen.append(one)
            request.progress("read", len(to_reopen))
    return to_reopen, left, discarded


async def require_reopenable(rt: Runtime, request: RetryRequest) -> Job:
    """Return the job if this command may reopen it.

    Raises:
        NotFoundError: `job.record.not_found`, `job.record.deleted`.
        UsageError: `job.state.not_finished`, `job.retry.nothing_left`;
            `job.retry.in_progress`: another command reopens it.
    """
    job = await rt.jobs.read(request.ref)
    if job is None:
        message = f"Job {request.ref.job} does not exist."
        raise NotFoundError(message, code="job.record.not_found")
    require_not_deleted(job)
    if job.status is JobStatus.REOPENING:
        require_own(rt, job, request)
    elif job.status is JobStatus.SUCCEEDED and not job.tolerated_chunks:
        raise nothing_left(job)
    elif not job.status.ended:
        message = f"Job {job.ref.job} is {job.status}: it cannot be reopened now."
        first = f"piecework jobs watch {job.ref.job}"
        if job.pause is not None:
            first = pause_command(job_facts(job, rt.clock()))
        step = f"`{first}`; repeat the command after the end of the job."
        raise UsageError(message, code="job.state.not_finished", next_step=step)
    return job


def require_own(rt: Runtime, job: Job, request: RetryRequest) -> None:
    """Refuse to take part in a reopening by another command that is at work.

    The first to finish lets the job run, and then no chunk is reopened any more. The
    same operator with the same reason repeats an interrupted command.

    Raises:
        UsageError: `job.retry.in_progress`.
    """
    by, why = map(job.item.get, ("reopened_by", "reopen_reason"))
    repeated = (by, why) == (request.actor, request.reason)
    if repeated or rt.clock() - moment(job.progress_at) >= SUBMIT_TIMEOUT_S:
        return
    message = f"Job {job.ref.job} is being reopened by another command, of {by}."
    raise UsageError(message, code="job.retry.in_progress")


def nothing_left(job: Job, left: Sequence[ChunkRef] = ()) -> UsageError:
    """Return the error of a job that has no chunk to reopen; `left`: left out."""
    message = f"Job {job.ref.job} has no chunk left to reopen"
    message += f"; {left_out(left)}." if left else "."
    step = f"`piecework results {job.ref.job}`"
    return UsageError(message, code="job.retry.nothing_left", next_step=step)


async def reopen(
    rt: Runtime,
    job: Job,
    to_reopen: Sequence[ReopenRequest],
    request: RetryRequest,
    event: str,
) -> tuple[list[Chunk], int]:
    """Reopen chunks of an ended job and dispatch them; return them, and the gen.

    A chunk that is blocked by an earlier one of its order key is sent after that.

    Raises:
        UsageError: `job.retry.incomplete`: another process ended the reopening, or a
            cancel did. What is reopened runs.
    """
    by, why = request.actor, request.reason
    until = {} if request.deadline is None else {"deadline_at": iso(request.deadline)}
    if job.status is not JobStatus.REOPENING:
        facts: dict[str, Any] = {"reopened_by": by, "reopen_reason": why, **until}
        if usage := (await paid_by_joins(rt, job)).item:
            facts["join_usage"] = usage
        also = await close_join_letter(rt, job, request.closing)
        if await rt.transitions.reopen(job, facts, also) is None:
            job = await require_reopenable(rt, request)
            return await reopen(rt, job, to_reopen, request, event)
        job = await rt.jobs.read(request.ref) or job
    await remove_from_tallies(rt, job, [one.chunk.ref.chunk for one in to_reopen])
    rate = DispatchRate(request.rate, rt.clock()) if request.rate else None
    reopened = await reopen_chunks(rt, job, to_reopen, request, rate)
    is_short = len(reopened) < len(to_reopen)
    cut_short = is_short and not await is_reopening(rt, job)
    await rt.transitions.reopened(job, until)
    await pause_with_pipeline(rt, job)
    await dispatch(rt, job, reopened, rate, request.progress)
    recorded: dict[str, Any] = {"actor": by, "reason": why}
    recorded |= {"gen": job.gen, "chunks": len(reopened)}
    recorded |= request.again.facts if request.again else {}
    await rt.jobs.record(request.ref, event, recorded)
    if cut_short:
        message = (
            f"Another process ended the reopening of job {job.ref.job}: this command "
            f"reopened {len(reopened)} of {len(to_reopen)} chunks."
        )
        step = f"`piecework jobs watch {job.ref.job}`, then repeat the command."
        raise UsageError(message, code=INCOMPLETE, next_step=step)
    return reopened, job.gen


async def is_reopening(rt: Runtime, job: Job) -> bool:
    """Return whether the chunks of a job can still be reopened in its generation."""
    now = await rt.jobs.read(job.ref)
    return now is not None and (now.status, now.gen) == (JobStatus.REOPENING, job.gen)


async def paid_by_joins(rt: Runtime, job: Job) -> CallUsage:
    """Return what the calls of the job's joins used: the next join replaces the row."""
    usage = job.join_usage
    join = await read_chunk(rt.table, job.ref.chunk(keys.JOIN_CHUNK))
    if join is not None and join.gen == job.gen:
        usage.merge((await usage_of(rt.table, join))[0])
    return usage


async def close_join_letter(rt: Runtime, job: Job, closing: Closing) -> list[ItemWrite]:
    """Return the writes that close the open dead letter of the join.

    A reopened job runs its join again. A damaged dead letter stays open.
    """
    store = dead_letters_of(rt)
    letter = await store.read(job.ref.chunk(keys.JOIN_CHUNK), job.gen, [])
    if letter is None or letter.state != OPEN:
        return []
    return store.redrive_writes(letter, job.gen + 1, closing)


async def remove_from_tallies(rt: Runtime, job: Job, numbers: Sequence[int]) -> None:
    """Remove chunks from the tallies, so that their next end is counted."""
    groups: dict[int, set[int]] = defaultdict(set)
    for number in numbers:
        groups[keys.group_of(number)].add(number)
    mark = ProgressMark(rt, job)
    for group, ended in groups.items():
        await mark.write_if_due()
        await rt.tallies.remove(job.ref, group, ended)


async def reopen_chunks(
    rt: Runtime,
    job: Job,
    to_reopen: Sequence[ReopenRequest],
    request: RetryRequest,
    rate: DispatchRate | None,
) -> list[Chunk]:
    """Reopen the chunks that have not changed since they were read; return these.

    Each chunk's dead letter is closed in the same transaction.
    """
    letters = dead_letters_of(rt)
    reopened: list[Chunk] = []
    mark = ProgressMark(rt, job)
    for one in to_reopen:
        await mark.write_if_due()
        slot = rate.slot(len(reopened)) if rate else None
        also = (
            letters.redrive_writes(one.letter, job.gen, request.closing, one.patched)
            if one.letter
            else []
        )
        reopening = Reopening(one.patched, slot, also, one.compensation, one.restart)
        if await reopen_chunk(rt.table, one.chunk, job.gen, reopening):
            reopened.append(one.chunk)
            request.progress("written", len(reopened))
        elif not await is_reopening(rt, job):
            break  # no other would be reopened
    return reopened


async def dispatch(
    rt: Runtime,
    job: Job,
    reopened: Sequence[Chunk],
    rate: DispatchRate | None,
    progress: Progress = lambda *_: None,
) -> None:
    """Send the messages of reopened chunks.

    If the job was still being submitted, finish the submit instead. If no chunk was
    reopened, begin to finish the job.
    """
    now = await rt.jobs.read(job.ref)
    if now is not None and now.status is JobStatus.SUBMITTING:
        await fan_out(rt, now)
        return
    refs = [chunk.ref for chunk in reopened]
    blocked = {chunk.ref for chunk in reopened if chunk.blocked_by is not None}
    by_delay = rate.group_by_delay(refs, rt.clock()) if rate else {0: refs}
    mark, sent = ProgressMark(rt, job), Counter("sent", progress)
    for seconds, due in by_delay.items():
        for some in batches([ref for ref in due if ref not in blocked]):
            await mark.write_if_due()
            messages = [Message.about(chunk, job.gen) for chunk in some]
            await rt.work.send(messages, to=job.queue, delay_s=seconds)
            sent.add(len(some))
    if not refs:
        begun = await start_finalizing(rt, job.ref)
        if begun is not None:
            await rt.work.send([Message.about(*begun)], to=job.queue)


# ── dispatch chunks at a rate ─────────────────────────────────────────────────
#
# Each chunk keeps its dispatch slot on its own item, and no worker claims it before
# that time. So the rate holds even if a reconciler sends the messages again, or if the
# process that redrives has ended.

#: Seconds that SQS delays a message at most. For later slots no message is sent here:
#: the reconciler sends it when the slot is due.
MAX_SQS_DELAY_S = 900.0
#: Seconds after its slot at which the reconciler treats a message as lost.
LOST_AFTER_S = 30.0


@dataclass(frozen=True, slots=True)
class DispatchRate:
    """A number of chunks a second, counted from a start time in epoch seconds."""

    per_second: float
    started_at: float

    def slot(self, position: int) -> Schedule:
        """Return when a chunk may be claimed, and when its message counts as lost."""
        after = position / self.per_second
        at = self.started_at + after
        return Schedule(at, at + (LOST_AFTER_S if after <= MAX_SQS_DELAY_S else 0.0))

    def group_by_delay(
        self, refs: Sequence[ChunkRef], now: float
    ) -> dict[int, list[ChunkRef]]:
        """Return the chunks to send, by the delay of their messages in seconds.

        Chunks whose slot is further away than SQS can delay are left out.
        """
        found: dict[int, list[ChunkRef]] = defaultdict(list)
        for position, ref in enumerate(refs):
            delay = self.slot(position).not_before - now
            if delay <= MAX_SQS_DELAY_S:
                found[max(math.ceil(delay), 0)].append(ref)
        return found
