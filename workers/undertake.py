"""Do the work on a claimed chunk: build its context, run its stages, report.

An end from outside (the lease, a cancel, a stop, a hung stage) becomes an outcome
here, so that there is one way to settle.
"""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

import structlog

from piecework import record, recovery, saga, telemetry
from piecework.claim import MAX_RECOVERIES
from piecework.errors import (
    ErrorEnvelope,
    SchemaTooNewError,
    StoreError,
    TransientError,
)
from piecework.model import Job, moment
from piecework.outcome import (
    NEWER_WORKERS,
    Cancelled,
    Compensation,
    DeadLettered,
    Deferred,
    Outcome,
    Released,
    Retry,
)
from piecework.pipeline import Pipeline
from piecework.ports import CancelRequest, ClaimLostError
from piecework.store.checkpoints import read_error
from piecework.winding_back import cancellation_cause
from workers.heart import InterruptReason, Lease
from workers.load import load_state
from workers.newer import retry_delay
from workers.set_up import ChunkRun, build_run
from workers.station import WorkerServices


@dataclass(frozen=True, slots=True)
class RunResult:
    """What came of the work on a chunk.

    Attributes:
        calls_after_cancel: Calls that ended after a cancel request; None: no request.
    """

    chunk_run: ChunkRun
    outcome: Outcome
    calls_after_cancel: int | None = None


async def run_claim(
    lease: Lease,
    job: Job,
    pipeline: Pipeline,
    services: WorkerServices,
    log: structlog.stdlib.BoundLogger,
) -> RunResult:
    """Run a chunk's stages from its last checkpoint and return what came of it.

    Raises:
        ClaimLostError: The chunk is somebody else's by now; nothing may be written.
    """
    chunk_run = build_run(lease, job, pipeline, services, log)
    try:
        outcome = await run_while_leased(
            lease, chunk_run, services, run_from_checkpoint(chunk_run, job, services)
        )
        cancel_request = lease.cancel or chunk_run.checkpoints.cancel
        undo = cancel_request is not None and cancel_request.compensate
        if isinstance(outcome, Cancelled) and outcome.compensation is None and undo:
            lease.begin_compensation()
            outcome = await run_while_leased(
                lease,
                chunk_run,
                services,
                compensate_cancelled(chunk_run, outcome.stage),
            )
    except ClaimLostError:
        await chunk_run.journal.close(keep=False)
        raise
    finally:
        chunk_run.ctx.caller.effect_drain.abandon()
    return RunResult(chunk_run, outcome, calls_after_cancel(chunk_run, cancel_request))


async def run_while_leased(
    lease: Lease,
    chunk_run: ChunkRun,
    services: WorkerServices,
    work: Coroutine[Any, Any, Outcome],
) -> Outcome:
    """Work as long as the claim is held and nobody cuts it off; say what it came to.

    Raises:
        ClaimLostError: The chunk is somebody else's by now.
    """
    try:
        async with lease:
            return await work
    except StoreError as error:
        telemetry.emit(chunk_run.ctx.log, "chunk.store_failed", error_code=error.code)
        return Released()
    return outcome_of_interrupt(lease, chunk_run, services)


async def run_from_checkpoint(
    chunk_run: ChunkRun, job: Job, services: WorkerServices
) -> Outcome:
    """Take over what earlier claims left, then go on from there."""
    try:
        await load_state(chunk_run, job, services)
    except Exception as error:
        if isinstance(error, StoreError) and not isinstance(error, SchemaTooNewError):
            raise
        return on_load_failure(chunk_run, malformed(chunk_run, error), services)
    chunk_run.loaded = True
    if chunk_run.claim.is_recovery and chunk_run.claim.recoveries > MAX_RECOVERIES:
        failure = chunk_run.checkpoints.failure or last_failure(chunk_run)
        return DeadLettered(failure, Compensation.ABANDONED)
    if chunk_run.claim.is_recovery and chunk_run.checkpoints.failure is None:
        return await recover_spent(chunk_run)
    return await saga.run(
        chunk_run.pipeline, chunk_run.ctx, chunk_run.checkpoints, chunk_run.limits
    )


def on_load_failure(
    chunk_run: ChunkRun, error: Exception, services: WorkerServices
) -> Outcome:
    """Decide on a chunk that cannot be gone on with here: perhaps it can elsewhere.

    What a newer version left is for newer workers, however long it takes. A stage that
    this pipeline lacks may be one that theirs has: they are waited for, for a while.
    """
    failure = saga.describe_failure(error, chunk_run.ctx, chunk_run.limits)
    deferrals = int(chunk_run.claim.chunk.item.get("deferrals", 0))
    renamed = (
        failure.code == "runtime.stage.not_found" and deferrals < recovery.MAX_DEFERRALS
    )
    if not renamed and not isinstance(error, SchemaTooNewError):
        return outcome_of_unreadable(chunk_run, failure)
    delay = retry_delay(deferrals + 1, services.rt.settings)
    waiting = failure.model_copy(update={"retry_after": delay})
    return Deferred(waiting, delay, NEWER_WORKERS)


def malformed(chunk_run: ChunkRun, error: Exception) -> Exception:
    """Return what to say of a record that cannot be read: somebody edited a row."""
    if not isinstance(error, record.MALFORMED_ERRORS):
        return error
    what = f"A row of chunk {chunk_run.claim.ref}"
    return record.unreadable_error(what, f"cannot be read: {type(error).__name__}")


async def compensate_cancelled(chunk_run: ChunkRun, stage: str) -> Outcome:
    """Undo what a chunk has done that was stopped at a stage before its pivot.

    An effect that was under way lands first: it must not happen after it was undone.
    """
    await chunk_run.ctx.caller.drain()
    if chunk_run.checkpoints.failure is None:
        failure = cancellation_cause(
            chunk_run.claim.ref, stage, chunk_run.limits.clock()
        )
        await chunk_run.checkpoints.begin_compensation(failure, stage)
    return await saga.compensate(
        chunk_run.pipeline,
        chunk_run.ctx,
        chunk_run.checkpoints,
        chunk_run.checkpoints.failure or failure,
    )


def calls_after_cancel(
    chunk_run: ChunkRun, cancel_request: CancelRequest | None
) -> int | None:
    """Count the calls of the work that ended after a cancel was asked for."""
    if cancel_request is None:
        return None
    return chunk_run.ctx.caller.counts.count_ended_after(moment(cancel_request.at))


def outcome_of_unreadable(chunk_run: ChunkRun, failure: ErrorEnvelope) -> Outcome:
    """Decide on a chunk whose payload or checkpoints cannot be read.

    Nothing can be undone without them: if anything was begun, a person has to look.
    """
    attempts_left = chunk_run.limits.max_attempts - chunk_run.ctx.attempt
    if failure.retryable and attempts_left > 0:
        delay = recovery.backoff(failure, chunk_run.ctx.attempt, chunk_run.limits.rng)
        return Retry(failure, delay)
    untouched = (
        chunk_run.claim.is_first
        or chunk_run.checkpoints.reached_stage == chunk_run.pipeline.stages[0].name
    )
    return DeadLettered(
        failure, Compensation.NOT_NEEDED if untouched else Compensation.ABANDONED
    )


async def recover_spent(chunk_run: ChunkRun) -> Outcome:
    """Undo and bury a chunk whose attempts are spent without an end on record."""
    failure = last_failure(chunk_run)
    names = [stage.name for stage in chunk_run.pipeline.stages]
    index = names.index(chunk_run.checkpoints.reached_stage)
    chunk_run.ctx.stage = chunk_run.checkpoints.reached_stage
    return await saga.recover(
        chunk_run.pipeline,
        chunk_run.ctx,
        chunk_run.checkpoints,
        chunk_run.limits,
        index,
        failure,
    )


def last_failure(chunk_run: ChunkRun) -> ErrorEnvelope:
    """Return what ended the last attempt: by its record, else its worker's death."""
    error_history = chunk_run.error_history
    last = (
        (error_history[-1]["gen"], error_history[-1]["attempt"])
        if error_history
        else None
    )
    if last == (chunk_run.claim.gen, chunk_run.claim.attempt):
        return read_error(error_history[-1])
    message = "The worker died with the chunk, in its last attempt."
    error = TransientError(message, code="runtime.worker.lost")
    chunk_run.ctx.stage = chunk_run.checkpoints.reached_stage
    return saga.describe_failure(error, chunk_run.ctx, chunk_run.limits)


def outcome_of_interrupt(
    lease: Lease, chunk_run: ChunkRun, services: WorkerServices
) -> Outcome:
    """Turn an end from outside into an outcome.

    Raises:
        ClaimLostError: It was the claim that ended.
    """
    settings = services.rt.settings
    match lease.reason:
        case InterruptReason.CANCEL:
            return Cancelled(
                chunk_run.ctx.stage or str(chunk_run.claim.chunk.item["stage"])
            )
        case InterruptReason.STOPPING:
            return Released()
        case InterruptReason.STALLED:
            reason = f"No call or stage ended for {settings.stall_timeout_s:g} s."
            return retry_after_timeout(chunk_run, "runtime.stage.stalled", reason)
        case InterruptReason.TIMEOUT:
            reason = f"The chunk ran for more than {settings.max_runtime_s:g} s."
            return retry_after_timeout(chunk_run, "runtime.stage.timeout", reason)
        case _:
            raise ClaimLostError


def retry_after_timeout(chunk_run: ChunkRun, code: str, reason: str) -> Retry:
    """Return the outcome of a chunk that took too long.

    It is retried even if its attempts are spent: the next worker that claims it has
    a fresh lease for the recovery.
    """
    error = TransientError(reason, code=code)
    failure = saga.describe_failure(error, chunk_run.ctx, chunk_run.limits)
    return Retry(
        failure, recovery.backoff(failure, chunk_run.ctx.attempt, chunk_run.limits.rng)
    )
