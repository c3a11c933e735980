"""Write an outcome exactly once, if this worker still owns the claim."""

from __future__ import annotations

import asyncio

import structlog

from piecework import keys
from piecework.finish import certify, store_certificate
from piecework.model import Job
from piecework.outcome import (
    Cancelled,
    DeadLettered,
    Deferred,
    Released,
    Retry,
    Succeeded,
)
from piecework.ports import ClaimLostError
from piecework.store.calls_spent import Calls
from piecework.store.census import take_snapshot
from piecework.store.results import fits_inline
from piecework.store.table import Action
from workers.announce import announce
from workers.set_up import ChunkRun
from workers.station import WorkerServices
from workers.undertake import RunResult


async def settle(
    result: RunResult,
    job: Job,
    services: WorkerServices,
    log: structlog.stdlib.BoundLogger,
) -> float | None:
    """Write the outcome of a run; return the seconds until the next attempt, or None.

    Raises:
        ClaimLostError: Another worker owns the chunk and settles it.
    """
    chunk_run, outcome = result.chunk_run, result.outcome
    # A redrive reuses the paid calls of a failed chunk; a succeeded chunk needs no
    # journal.
    await chunk_run.journal.close(keep=not isinstance(outcome, Succeeded))
    ours, wait = await write(result, job, services)
    if not ours:
        raise ClaimLostError
    duration_s = (
        asyncio.get_running_loop().time() - chunk_run.ctx.caller.in_flight.acquired_at
    )
    announce(result, duration_s, log)
    if isinstance(outcome, Deferred):
        await services.note_blocked(job, outcome)
    return wait


async def write(
    result: RunResult, job: Job, services: WorkerServices
) -> tuple[bool, float | None]:
    """Make the one write that ends the claim.

    Return whether this worker still owned the claim, and the seconds until the next
    attempt.
    """
    chunk_run, outcome = result.chunk_run, result.outcome
    settlements, claim = services.settlements, chunk_run.claim
    counts = chunk_run.ctx.caller.counts
    calls = Calls(
        counts.made,
        result.calls_after_cancel or 0,
        counts.cached,
        counts.tokens_in,
        counts.tokens_out,
    )
    match outcome:
        case Succeeded(value):
            return await succeed(chunk_run, value, job, services, calls), None
        case Retry() as retry:
            return await settlements.schedule_retry(
                claim, retry, calls=calls
            ), retry.delay
        case Deferred() as deferred:
            return await settlements.defer(claim, deferred, calls=calls), deferred.delay
        case Cancelled() as cancelled:
            at = None if cancelled.compensation is None else resume_at(chunk_run)
            ours = await settlements.cancel(claim, cancelled, resume_at=at, calls=calls)
            return ours, None
        case DeadLettered() as dead:
            return await dead_letter(chunk_run, dead, job, services, calls), None
        case Released():
            return await settlements.release(claim, calls=calls), 0.0


async def succeed(
    chunk_run: ChunkRun, value: str, job: Job, services: WorkerServices, calls: Calls
) -> bool:
    """Write a success with the last value and, for a join, the end of the job."""
    last = len(chunk_run.pipeline.stages) - 1
    sha256 = result_sha256(chunk_run, value)
    if chunk_run.pipeline.result_index == last and fits_inline(chunk_run.claim, value):
        return await services.settlements.succeed(
            chunk_run.claim, result_sha256=sha256, value=value, calls=calls
        )
    also = await chunk_run.checkpoints.value_actions(last, value)
    also += await job_end(chunk_run, job, services, join_error="")
    return await services.settlements.succeed(
        chunk_run.claim, result_sha256=sha256, also=also, calls=calls
    )


def result_sha256(chunk_run: ChunkRun, last_value: str) -> str:
    """Return the hash of the chunk's result; the join and operators verify it."""
    index = chunk_run.pipeline.result_index
    if index == len(chunk_run.pipeline.stages) - 1:
        return keys.sha256(last_value.encode())
    return keys.sha256(
        chunk_run.checkpoints.completed[chunk_run.pipeline.stages[index].name].encode()
    )


async def dead_letter(
    chunk_run: ChunkRun,
    dead: DeadLettered,
    job: Job,
    services: WorkerServices,
    calls: Calls,
) -> bool:
    """Write a dead letter and, for a join, the end of the job."""
    letter = services.dead_letters.row(
        chunk_run.claim,
        dead,
        chunk_run.error_history,
        pipeline=chunk_run.pipeline.name,
        owner=chunk_run.pipeline.owner,
        runbook=chunk_run.pipeline.runbook,
    )
    also = await job_end(chunk_run, job, services, join_error=dead.failure.code)
    return await services.settlements.dead_letter(
        chunk_run.claim,
        dead,
        letter,
        resume_at=resume_at(chunk_run),
        also=also,
        calls=calls,
    )


def resume_at(chunk_run: ChunkRun) -> str:
    """Return where a redrive resumes: the first incomplete or compensated stage."""
    names = [stage.name for stage in chunk_run.pipeline.stages]
    done, undone = chunk_run.checkpoints.completed, chunk_run.checkpoints.compensated
    return next((n for n in names if n in undone or n not in done), names[-1])


async def job_end(
    chunk_run: ChunkRun, job: Job, services: WorkerServices, *, join_error: str
) -> list[Action]:
    """Return the writes that end the job together with its join; empty for a chunk."""
    if not chunk_run.claim.ref.is_join:
        return []
    rt = services.rt
    if job.gen != chunk_run.claim.gen:
        # The cached job belongs to an earlier generation.
        job = await rt.jobs.read(job.ref) or job
    # The join's snapshot is still valid: see `piecework.store.looks`.
    snapshot = chunk_run.snapshot or await take_snapshot(rt.table, job.ref, job.chunks)
    certificate = chunk_run.certificate = certify(job, snapshot, rt.clock(), join_error)
    facts = await store_certificate(rt, certificate)
    return rt.transitions.ending(job, certificate.status, facts)
