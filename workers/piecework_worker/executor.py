"""Process one work item: claim the chunk, run it, settle it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from enum import Enum, auto

from piecework import telemetry
from piecework.aws.queue import Message
from piecework.domain.claim import (
    AlreadyEnded,
    AttemptsExhausted,
    Busy,
    CancelPending,
    Claim,
    NotFound,
    Refusal,
    SchemaTooNew,
)
from piecework.domain.model import Chunk, ChunkRef, Job
from piecework.domain.protocols import ClaimLostError
from piecework.pipeline import Pipeline
from piecework.saga.compensation import cancellation_cause, may_compensate
from piecework.store.cancellation import cancel_unclaimed, set_direction
from piecework_worker.run import defer_to_newer_worker, run_claim
from piecework_worker.services import WorkerServices
from piecework_worker.settle import settle

#: Seconds that a message is left to other workers, which may know its pipeline.
UNKNOWN_S = 30.0


@dataclass(frozen=True, slots=True)
class WorkItem:
    """One dispatch of a chunk: by an SQS message or, for a join, by the worker."""

    ref: ChunkRef
    gen: int
    received: int = 0
    receipt: str | None = None


class MessageAction(Enum):
    """What the worker does with the message of a work item."""

    #: The chunk has ended: count it, then delete the message.
    ACK = auto()
    #: The chunk ended during a cancel: as `ACK`, and it may be the job's last chunk.
    ACK_CANCELLED = auto()
    #: The message belongs to an earlier generation of the chunk: delete it.
    DISCARD = auto()
    #: SQS hides the message until the chunk's next attempt: do nothing.
    KEEP = auto()
    #: The chunk does not exist: move the message to quarantine.
    QUARANTINE = auto()


async def execute(
    work_item: WorkItem, job: Job, services: WorkerServices
) -> MessageAction:
    """Claim a chunk and run it; if the claim is refused, act on the reason."""
    pipeline = services.pipelines.get(job.pipeline)
    if pipeline is None:
        telemetry.emit(
            services.log, "pipeline.unknown", pipeline=job.pipeline, delay_s=UNKNOWN_S
        )
        await services.note_unknown_pipeline(job)
        return await back_off(work_item, UNKNOWN_S, services)
    requested_at = asyncio.get_running_loop().time()
    reply = await acquire(work_item, pipeline, services)
    if isinstance(reply, Claim):
        return await run_and_settle(
            reply, work_item, job, pipeline, requested_at, services
        )
    return await handle_refusal(reply, work_item, services)


async def acquire(
    work_item: WorkItem, pipeline: Pipeline, services: WorkerServices
) -> Claim | Refusal:
    """Claim a chunk for an attempt, a recovery or a compensation."""
    claims, facts = (
        services.claims,
        {"gen": work_item.gen, "receive_count": work_item.received},
    )
    reply = await claims.acquire(work_item.ref, **facts)
    if isinstance(reply, CancelPending) and reply.chunk.compensate_requested:
        await set_unclaimed_direction(reply.chunk, pipeline, services)
        reply = await claims.acquire(work_item.ref, **facts, last=reply.chunk.fence)
    if isinstance(reply, AttemptsExhausted):
        reply = await claims.acquire_for_recovery(
            work_item.ref, **facts, last=reply.fence
        )
    return reply


async def set_unclaimed_direction(
    chunk: Chunk, pipeline: Pipeline, services: WorkerServices
) -> bool:
    """Set the direction of an unclaimed chunk whose cancel requests compensation.

    A chunk that may have passed its pivot goes forward instead.
    """
    rt, stage = services.rt, str(chunk.item["stage"])
    back = may_compensate(pipeline, stage)
    failure = cancellation_cause(chunk.ref, stage, rt.clock()) if back else None
    return await set_direction(rt.table, chunk, failure)


async def run_and_settle(
    claim: Claim,
    work_item: WorkItem,
    job: Job,
    pipeline: Pipeline,
    requested_at: float,
    services: WorkerServices,
) -> MessageAction:
    """Run a claimed chunk and settle its outcome while the lease is valid.

    If the worker loses the claim, it keeps the message: the chunk's new owner has its
    own
    message, or this one reappears and finds an ended chunk.
    """
    log = services.log.bind(
        job=job.ref.job, chunk=work_item.ref.chunk, fence=claim.fence
    )
    telemetry.emit(
        log,
        "chunk.claimed",
        chunk=work_item.ref.chunk,
        receive_count=work_item.received,
    )
    with services.lease_renewer.maintain(
        claim, work_item.receipt, requested_at
    ) as lease:
        try:
            result = await run_claim(lease, job, pipeline, services, log)
            wait = await settle(result, job, services, log)
        except ClaimLostError:
            telemetry.emit(log, "lease.lost", reason=str(lease.reason or "refused"))
            return MessageAction.KEEP
    if wait is None:
        return (
            MessageAction.ACK
            if result.calls_after_cancel is None
            else MessageAction.ACK_CANCELLED
        )
    if work_item.receipt is None:
        await services.rt.work.send(
            [Message.about(work_item.ref, work_item.gen)], delay_s=wait
        )
    await hide_message(work_item, wait, services)
    return MessageAction.KEEP


async def handle_refusal(
    reply: Refusal, work_item: WorkItem, services: WorkerServices
) -> MessageAction:
    """Act on a refused claim; a refusal spends no attempt of the chunk."""
    match reply:
        case AlreadyEnded(chunk):
            return (
                MessageAction.ACK
                if chunk.gen == work_item.gen
                else MessageAction.DISCARD
            )
        case Busy(seconds):
            return await back_off(work_item, seconds, services)
        case CancelPending(chunk):
            if not chunk.compensate_requested:
                await cancel_unclaimed(services.rt.table, chunk, services.rt.clock())
            return await back_off(work_item, 0.0, services)
        case NotFound():
            return MessageAction.QUARANTINE
        case SchemaTooNew():
            await defer_to_newer_worker(
                "chunk", work_item.received, work_item.receipt, services
            )
            return MessageAction.KEEP
        case AttemptsExhausted():
            return await back_off(work_item, UNKNOWN_S, services)


async def back_off(
    work_item: WorkItem, seconds: float, services: WorkerServices
) -> MessageAction:
    """Hide the message until a new claim may succeed.

    Random jitter keeps the refused workers from claiming again at the same moment.
    """
    log = services.log.bind(job=work_item.ref.job, chunk=work_item.ref.chunk)
    telemetry.emit(log, "chunk.claim_refused", delay_s=round(seconds, 3))
    await hide_message(work_item, seconds + services.rt.rng.uniform(0, 1), services)
    return MessageAction.KEEP


async def hide_message(
    work_item: WorkItem, seconds: float, services: WorkerServices
) -> None:
    """Make SQS hide the message for `seconds`."""
    if work_item.receipt is not None:
        await services.rt.work.hide([work_item.receipt], seconds)
