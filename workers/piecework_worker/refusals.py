"""What a worker does with the message of a chunk that it may not claim."""

from __future__ import annotations

from typing import Any, TypeAlias

import structlog

from piecework import telemetry
from piecework.aws.queue import Delivery
from piecework.domain.chunk import Chunk
from piecework.domain.claim import (
    AlreadyEnded,
    AttemptsExhausted,
    Blocked,
    Busy,
    CancelPending,
    LeaseExpired,
    NotDue,
    NotFound,
    Refusal,
    SchemaTooNew,
)
from piecework.domain.job import Job
from piecework.domain.outcome import leaves_queue
from piecework.jobs.order import start_next
from piecework.runtime import Runtime
from piecework.store.cancellation import cancel_unclaimed
from piecework.store.order import allows_next
from piecework_worker.early_outcomes import retry_delay
from piecework_worker.intake import Intake
from piecework_worker.job_cache import JobCache
from piecework_worker.tenant_caps import delay_of
from piecework_worker.work_item import (
    MessageAction,
    WorkItem,
    hide_message,
    keep_for_next_attempt,
)

Log: TypeAlias = structlog.stdlib.BoundLogger

#: Seconds that a message is left to other workers, which may recover its chunk.
LEFT_S = 30.0
#: Seconds, at most, that a message is hidden from workers without its pipeline.
LONGEST_UNKNOWN_S = 8.0


async def leave_to_other_workers(
    work_item: WorkItem, job: Job, rt: Runtime, intake: Intake, log: Log
) -> MessageAction:
    """Give the message of a chunk back to workers that may run its job, at once.

    Each further receive hides it for longer, so that a fleet without such a worker does
    not pass it round. The receiver of this worker pauses meanwhile.
    """
    intake.notes.unknown_in_a_row += 1
    delay = round(unknown_delay(work_item.received) * rt.rng.uniform(0.5, 1), 3)
    pinned: dict[str, Any] = {"pinned_to": job.pinned_to} if job.pinned_to else {}
    telemetry.emit(
        log, "pipeline.unknown", pipeline=job.pipeline, delay_s=delay, **pinned
    )
    await intake.note_left(job)
    await hide_message(work_item, delay, rt.work)
    return MessageAction.KEEP


def unknown_delay(received: int) -> float:
    """Return the longest delay in seconds of a message without its pipeline."""
    return 0.0 if received <= 1 else min(LONGEST_UNKNOWN_S, 2.0 ** (received - 2))


async def handle_refusal(  # noqa: C901, PLR0911 -- one return for each refusal
    reply: Refusal,
    work_item: WorkItem,
    job: Job,
    rt: Runtime,
    jobs: JobCache,
    log: Log,
) -> MessageAction:
    """Act on a refused claim; a refusal spends no attempt of the chunk."""
    match reply:
        case AlreadyEnded(chunk):
            return await on_ended(chunk, work_item, job, rt, log)
        case Busy(seconds):
            return await hide_until(work_item, seconds, "busy", rt, log)
        case NotDue(seconds) if leaves_queue(seconds):
            log_refusal(work_item, "not due", log, delay_s=round(seconds, 3))
            return MessageAction.DELETE
        case NotDue(seconds):
            return await hide_until(work_item, seconds, "not due", rt, log)
        case Blocked():
            log_refusal(work_item, "blocked", log)
            return MessageAction.DELETE
        case CancelPending(chunk):
            return await end_cancelled_chunk(chunk, work_item, rt, log)
        case NotFound():
            now = await jobs.fresh(work_item.ref.of)
            gone = now is not None and now.status.gone
            log_refusal(work_item, "job deleted" if gone else "not found", log)
            return MessageAction.DELETE if gone else MessageAction.QUARANTINE
        case SchemaTooNew():
            await defer_to_newer_worker("chunk", work_item, rt, log)
            return MessageAction.KEEP
        case AttemptsExhausted():
            return await hide_until(work_item, LEFT_S, "attempts spent", rt, log)
        case LeaseExpired():
            return await hide_until(work_item, LEFT_S, "lease expired", rt, log)


async def on_ended(
    chunk: Chunk, work_item: WorkItem, job: Job, rt: Runtime, log: Log
) -> MessageAction:
    """Count an ended chunk; its worker may have died before it started the next one."""
    current = chunk.gen == work_item.gen
    log_refusal(work_item, "ended" if current else "superseded", log)
    if allows_next(chunk):
        await start_next(rt, chunk, job.queue)
    return MessageAction.ACK_ENDED if current else MessageAction.DELETE


async def defer_to_newer_worker(
    about: str, message: WorkItem | Delivery, rt: Runtime, log: Log
) -> None:
    """Hide a message that only a newer worker understands, for itself or a record."""
    most = retry_delay(message.received, rt.settings)
    seconds = round(most * rt.rng.uniform(0.5, 1), 3)
    telemetry.emit(
        log,
        "message.deferred_newer_schema",
        about=about,
        received=message.received,
        delay_s=seconds,
    )
    if message.receipt is not None:
        await rt.work.hide([message.receipt], seconds)


async def end_cancelled_chunk(
    chunk: Chunk, work_item: WorkItem, rt: Runtime, log: Log
) -> MessageAction:
    """Cancel a chunk without an owner, unless its cancel requests compensation."""
    if not chunk.compensate_requested and await cancel_unclaimed(
        rt.table, chunk, rt.clock()
    ):
        log_refusal(work_item, "cancelled", log)
        return MessageAction.ACK_CANCELLED
    return await hide_until(work_item, 0.0, "cancelled", rt, log)


async def leave_until_slot(
    work_item: WorkItem, job: Job, rt: Runtime, jobs: JobCache, log: Log
) -> MessageAction:
    """Leave a chunk whose tenant runs as many chunks at once as its cap allows."""
    delay = delay_of(work_item.received) * rt.rng.uniform(0.5, 1)
    log_refusal(work_item, "tenant at its cap", log, delay_s=round(delay, 3))
    return await keep_for_next_attempt(work_item, delay, job, rt, jobs, paused=False)


async def hide_until(
    work_item: WorkItem, seconds: float, reason: str, rt: Runtime, log: Log
) -> MessageAction:
    """Hide the message until a new claim may succeed.

    Random jitter keeps the refused workers from claiming again at the same moment.
    """
    log_refusal(work_item, reason, log, delay_s=round(seconds, 3))
    await hide_message(work_item, seconds + rt.rng.uniform(0, 1), rt.work)
    return MessageAction.KEEP


def log_refusal(work_item: WorkItem, reason: str, log: Log, **facts: Any) -> None:
    """Log why the worker did not claim the chunk of a message."""
    ref = work_item.ref
    log = log.bind(job=ref.job, chunk=ref.chunk, gen=work_item.gen)
    telemetry.emit(
        log,
        "chunk.claim_refused",
        reason=reason,
        receive_count=work_item.received,
        **facts,
    )
