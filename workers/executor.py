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
from piecework.winding_back import may_go_back, wound_back
from workers.newer import leave
from workers.settle import settle
from workers.station import Station
from workers.undertake import undertake

#: Seconds for which a message is left to workers that may know what this one doesn't.
UNKNOWN_S = 30.0


@dataclass(frozen=True, slots=True)
class Turn:
    """One handing-out of a chunk: by a message, or by the worker itself (the join)."""

    ref: ChunkRef
    gen: int
    received: int = 0
    receipt: str | None = None


class End(Enum):
    """What is to become of the message of a turn."""

    #: The chunk has ended: count it, then delete the message.
    COUNT = auto()
    #: It ended under a cancel: as COUNT, and it may have been the last.
    CANCELLED = auto()
    #: It belongs to an earlier life of the chunk: delete it.
    DROP = auto()
    #: It is hidden until its time: leave it.
    LEFT = auto()
    #: There is no such chunk: set it aside.
    ORPHAN = auto()


async def execute(turn: Turn, job: Job, station: Station) -> End:
    """Claim a chunk and work on it, or give way."""
    pipeline = station.pipelines.get(job.pipeline)
    if pipeline is None:
        telemetry.emit(
            station.log, "pipeline.unknown", pipeline=job.pipeline, delay_s=UNKNOWN_S
        )
        await station.note_unknown_pipeline(job)
        return await give_way(turn, UNKNOWN_S, station)
    asked_at = asyncio.get_running_loop().time()
    answer = await claim(turn, pipeline, station)
    if isinstance(answer, Claim):
        return await carry_out(answer, turn, job, pipeline, asked_at, station)
    return await refused(answer, turn, station)


async def claim(turn: Turn, pipeline: Pipeline, station: Station) -> Claim | Refusal:
    """Claim a chunk: for an attempt, to wind it up, or to wind it back."""
    claims, told = station.claims, {"gen": turn.gen, "deliveries": turn.received}
    answer = await claims.acquire(turn.ref, **told)
    if isinstance(answer, CancelPending) and answer.chunk.compensate_requested:
        await turn_to_its_end(answer.chunk, pipeline, station)
        answer = await claims.acquire(turn.ref, **told, last=answer.chunk.fence)
    if isinstance(answer, AttemptsExhausted):
        answer = await claims.acquire_spent(turn.ref, **told, last=answer.fence)
    return answer


async def turn_to_its_end(chunk: Chunk, pipeline: Pipeline, station: Station) -> bool:
    """Send a chunk that nobody holds and a cancel undoes on its way, back or onwards.

    One at its pivot may be past it, and so goes onwards.
    """
    rt, stage = station.rt, str(chunk.item["stage"])
    back = may_go_back(pipeline, stage)
    failure = wound_back(chunk.ref, stage, rt.clock()) if back else None
    return await turn_unclaimed(rt.table, chunk, failure)


async def carry_out(
    claim: Claim,
    turn: Turn,
    job: Job,
    pipeline: Pipeline,
    asked_at: float,
    station: Station,
) -> End:
    """Work on a claimed chunk and settle what came of it, while we hold it.

    A turn whose claim was lost leaves its message: whoever holds the chunk now has
    another one, or this one shows again and meets an ended chunk.
    """
    log = station.log.bind(job=job.ref.job, chunk=turn.ref.chunk, fence=claim.fence)
    telemetry.emit(log, "chunk.claimed", chunk=turn.ref.chunk, deliveries=turn.received)
    with station.heart.hold(claim, turn.receipt, asked_at) as hold:
        try:
            report = await undertake(hold, job, pipeline, station, log)
            wait = await settle(report, job, station, log)
        except ClaimLostError:
            telemetry.emit(log, "lease.lost", reason=str(hold.reason or "refused"))
            return End.LEFT
    if wait is None:
        return End.COUNT if report.late_calls is None else End.CANCELLED
    if turn.receipt is None:
        await station.rt.work.send([Message.about(turn.ref, turn.gen)], delay_s=wait)
    await hide(turn, wait, station)
    return End.LEFT


async def refused(answer: Refusal, turn: Turn, station: Station) -> End:
    """Do what becomes the loser of a claim: it costs the chunk nothing."""
    match answer:
        case AlreadyEnded(chunk):
            return End.COUNT if chunk.gen == turn.gen else End.DROP
        case Busy(seconds):
            return await give_way(turn, seconds, station)
        case CancelPending(chunk):
            if not chunk.compensate_requested:
                await cancel_unclaimed(station.rt.table, chunk, station.rt.clock())
            return await give_way(turn, 0.0, station)
        case NotFound():
            return End.ORPHAN
        case SchemaTooNew():
            await leave("chunk", turn.received, turn.receipt, station)
            return End.LEFT
        case AttemptsExhausted():
            return await give_way(turn, UNKNOWN_S, station)


async def give_way(turn: Turn, seconds: float, station: Station) -> End:
    """Hide the message until it is worth another look, each loser at its own time."""
    log = station.log.bind(job=turn.ref.job, chunk=turn.ref.chunk)
    telemetry.emit(log, "chunk.claim_lost", delay_s=round(seconds, 3))
    await hide(turn, seconds + station.rt.rng.uniform(0, 1), station)
    return End.LEFT


async def hide(turn: Turn, seconds: float, station: Station) -> None:
    """Let the message show again after so many seconds."""
    if turn.receipt is not None:
        await station.rt.work.hide([turn.receipt], seconds)
