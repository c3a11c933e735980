"""Carry one turn of a chunk from claim to settlement."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from enum import Enum, auto

from piecework import telemetry
from piecework.claim import (
    AlreadyEnded,
    AttemptsExhausted,
    Busy,
    CancelPending,
    Claim,
    NotFound,
    Refusal,
    SchemaTooNew,
)
from piecework.model import Chunk, ChunkRef, Job
from piecework.pipeline import Pipeline
from piecework.ports import ClaimLostError
from piecework.queue import Message
from piecework.store.cancels import cancel_unclaimed
from piecework.store.turns import turn_unclaimed
from piecework.winding_back import cancellation_cause, may_compensate
from workers.newer import leave
from workers.settle import settle
from workers.station import WorkerServices
from workers.undertake import run_claim

#: Seconds for which a message is left to workers that may know what this one doesn't.
UNKNOWN_S = 30.0


@dataclass(frozen=True, slots=True)
class WorkItem:
    """One handing-out of a chunk: by a message, or by the worker itself (the join)."""

    ref: ChunkRef
    gen: int
    received: int = 0
    receipt: str | None = None


class MessageAction(Enum):
    """What is to become of the message of a turn."""

    #: The chunk has ended: count it, then delete the message.
    ACK = auto()
    #: It ended under a cancel: as COUNT, and it may have been the last.
    ACK_CANCELLED = auto()
    #: It belongs to an earlier life of the chunk: delete it.
    DISCARD = auto()
    #: It is hidden until its time: leave it.
    KEEP = auto()
    #: There is no such chunk: set it aside.
    QUARANTINE = auto()


async def execute(turn: WorkItem, job: Job, services: WorkerServices) -> MessageAction:
    """Claim a chunk and work on it, or give way."""
    pipeline = services.pipelines.get(job.pipeline)
    if pipeline is None:
        telemetry.emit(
            services.log, "pipeline.unknown", pipeline=job.pipeline, delay_s=UNKNOWN_S
        )
        await services.note_unknown_pipeline(job)
        return await back_off(turn, UNKNOWN_S, services)
    requested_at = asyncio.get_running_loop().time()
    answer = await claim(turn, pipeline, services)
    if isinstance(answer, Claim):
        return await carry_out(answer, turn, job, pipeline, requested_at, services)
    return await refused(answer, turn, services)


async def claim(
    turn: WorkItem, pipeline: Pipeline, services: WorkerServices
) -> Claim | Refusal:
    """Claim a chunk: for an attempt, to wind it up, or to wind it back."""
    claims, told = services.claims, {"gen": turn.gen, "receive_count": turn.received}
    answer = await claims.acquire(turn.ref, **told)
    if isinstance(answer, CancelPending) and answer.chunk.compensate_requested:
        await set_unclaimed_direction(answer.chunk, pipeline, services)
        answer = await claims.acquire(turn.ref, **told, last=answer.chunk.fence)
    if isinstance(answer, AttemptsExhausted):
        answer = await claims.acquire_spent(turn.ref, **told, last=answer.fence)
    return answer


async def set_unclaimed_direction(
    chunk: Chunk, pipeline: Pipeline, services: WorkerServices
) -> bool:
    """Send a chunk that nobody holds and a cancel undoes on its way, back or onwards.

    One at its pivot may be past it, and so goes onwards.
    """
    rt, stage = services.rt, str(chunk.item["stage"])
    back = may_compensate(pipeline, stage)
    failure = cancellation_cause(chunk.ref, stage, rt.clock()) if back else None
    return await turn_unclaimed(rt.table, chunk, failure)


async def carry_out(
    claim: Claim,
    turn: WorkItem,
    job: Job,
    pipeline: Pipeline,
    requested_at: float,
    services: WorkerServices,
) -> MessageAction:
    """Work on a claimed chunk and settle what came of it, while we hold it.

    A turn whose claim was lost leaves its message: whoever holds the chunk now has
    another one, or this one shows again and meets an ended chunk.
    """
    log = services.log.bind(job=job.ref.job, chunk=turn.ref.chunk, fence=claim.fence)
    telemetry.emit(
        log, "chunk.claimed", chunk=turn.ref.chunk, receive_count=turn.received
    )
    with services.lease_renewer.maintain(claim, turn.receipt, requested_at) as lease:
        try:
            report = await run_claim(lease, job, pipeline, services, log)
            wait = await settle(report, job, services, log)
        except ClaimLostError:
            telemetry.emit(log, "lease.lost", reason=str(lease.reason or "refused"))
            return MessageAction.KEEP
    if wait is None:
        return (
            MessageAction.ACK
            if report.calls_after_cancel is None
            else MessageAction.ACK_CANCELLED
        )
    if turn.receipt is None:
        await services.rt.work.send([Message.about(turn.ref, turn.gen)], delay_s=wait)
    await hide(turn, wait, services)
    return MessageAction.KEEP


async def refused(
    answer: Refusal, turn: WorkItem, services: WorkerServices
) -> MessageAction:
    """Do what becomes the loser of a claim: it costs the chunk nothing."""
    match answer:
        case AlreadyEnded(chunk):
            return MessageAction.ACK if chunk.gen == turn.gen else MessageAction.DISCARD
        case Busy(seconds):
            return await back_off(turn, seconds, services)
        case CancelPending(chunk):
            if not chunk.compensate_requested:
                await cancel_unclaimed(services.rt.table, chunk, services.rt.clock())
            return await back_off(turn, 0.0, services)
        case NotFound():
            return MessageAction.QUARANTINE
        case SchemaTooNew():
            await leave("chunk", turn.received, turn.receipt, services)
            return MessageAction.KEEP
        case AttemptsExhausted():
            return await back_off(turn, UNKNOWN_S, services)


async def back_off(
    turn: WorkItem, seconds: float, services: WorkerServices
) -> MessageAction:
    """Hide the message until it is worth another look, each loser at its own time."""
    log = services.log.bind(job=turn.ref.job, chunk=turn.ref.chunk)
    telemetry.emit(log, "chunk.claim_refused", delay_s=round(seconds, 3))
    await hide(turn, seconds + services.rt.rng.uniform(0, 1), services)
    return MessageAction.KEEP


async def hide(turn: WorkItem, seconds: float, services: WorkerServices) -> None:
    """Let the message show again after so many seconds."""
    if turn.receipt is not None:
        await services.rt.work.hide([turn.receipt], seconds)
