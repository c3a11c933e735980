"""Run a claimed chunk: build its context, run its stages, return the outcome.

An interrupt (lost lease, cancel, stop, hung stage) becomes an outcome here, so that all
outcomes are settled in one place.
"""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

import structlog

from piecework import telemetry
from piecework.domain import records
from piecework.domain.claim import MAX_RECOVERIES
from piecework.domain.model import Job, moment
from piecework.domain.outcome import (
    MAX_DEFERRALS,
    NEWER_WORKERS,
    Cancelled,
    Compensation,
    DeadLettered,
    Deferred,
    Outcome,
    Released,
    Retry,
)
from piecework.domain.protocols import CancelRequest, ClaimLostError
from piecework.errors import (
    ErrorEnvelope,
    SchemaTooNewError,
    StoreError,
    TransientError,
)
from piecework.pipeline import Pipeline
from piecework.saga import engine, recovery
from piecework.saga.compensation import cancellation_cause
from piecework.settings import Settings
from piecework.store.checkpoints import read_error
from piecework_worker.assembly import ChunkRun, build_run, load_state
from piecework_worker.lease import InterruptReason, Lease
from piecework_worker.services import WorkerServices


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of a chunk's run.

    Attributes:
        calls_after_cancel: Calls that ended after the cancel request; None: no cancel.
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
    """Run a chunk's stages from its last checkpoint and return the result.

    Raises:
        ClaimLostError: Another worker owns the chunk; this one must not write.
    """
    chunk_run = build_run(lease, job, pipeline, services, log)
    try:
        outcome = await run_while_leased(
            lease, chunk_run, services, run_from_checkpoint(chunk_run, job, services)
        )
        cancel_request = lease.cancel or chunk_run.checkpoints.cancel
        compensate = cancel_request is not None and cancel_request.compensate
        if (
            isinstance(outcome, Cancelled)
            and outcome.compensation is None
            and compensate
        ):
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
    """Run the work until it ends or the lease interrupts it; return the outcome.

    Raises:
        ClaimLostError: Another worker owns the chunk.
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
    """Load the state of earlier claims and continue from there."""
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
    return await engine.run(
        chunk_run.pipeline, chunk_run.ctx, chunk_run.checkpoints, chunk_run.limits
    )


def on_load_failure(
    chunk_run: ChunkRun, error: Exception, services: WorkerServices
) -> Outcome:
    """Return the outcome of a chunk whose state this worker cannot load.

    State of a newer schema is deferred until a newer worker takes it, however long that
    is.
    A stage that this worker's pipeline lacks is deferred too, but only a limited number
    of
    times.
    """
    failure = engine.describe_failure(error, chunk_run.ctx, chunk_run.limits)
    deferrals = int(chunk_run.claim.chunk.item.get("deferrals", 0))
    renamed = failure.code == "runtime.stage.not_found" and deferrals < MAX_DEFERRALS
    if not renamed and not isinstance(error, SchemaTooNewError):
        return outcome_of_unreadable(chunk_run, failure)
    delay = retry_delay(deferrals + 1, services.rt.settings)
    waiting = failure.model_copy(update={"retry_after": delay})
    return Deferred(waiting, delay, NEWER_WORKERS)


def malformed(chunk_run: ChunkRun, error: Exception) -> Exception:
    """Return the error of a malformed row: an operator must have edited it."""
    if not isinstance(error, records.MALFORMED_ERRORS):
        return error
    what = f"A row of chunk {chunk_run.claim.ref}"
    return records.unreadable_error(what, f"cannot be read: {type(error).__name__}")


async def compensate_cancelled(chunk_run: ChunkRun, stage: str) -> Outcome:
    """Compensate a chunk that a cancel interrupted before its pivot.

    An effect in flight is drained first: it must not happen after its compensation.
    """
    await chunk_run.ctx.caller.drain()
    if chunk_run.checkpoints.failure is None:
        failure = cancellation_cause(
            chunk_run.claim.ref, stage, chunk_run.limits.clock()
        )
        await chunk_run.checkpoints.begin_compensation(failure, stage)
    return await engine.compensate(
        chunk_run.pipeline,
        chunk_run.ctx,
        chunk_run.checkpoints,
        chunk_run.checkpoints.failure or failure,
    )


def calls_after_cancel(
    chunk_run: ChunkRun, cancel_request: CancelRequest | None
) -> int | None:
    """Count the run's calls that ended after the cancel request."""
    if cancel_request is None:
        return None
    return chunk_run.ctx.caller.counts.count_ended_after(moment(cancel_request.at))


def outcome_of_unreadable(chunk_run: ChunkRun, failure: ErrorEnvelope) -> Outcome:
    """Return the outcome of a chunk whose payload or checkpoints cannot be read.

    Without them nothing can be compensated. If a stage was started, an operator has to
    act.
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
    """Compensate and dead-letter a chunk whose last attempt has no outcome."""
    failure = last_failure(chunk_run)
    names = [stage.name for stage in chunk_run.pipeline.stages]
    index = names.index(chunk_run.checkpoints.reached_stage)
    chunk_run.ctx.stage = chunk_run.checkpoints.reached_stage
    return await engine.recover(
        chunk_run.pipeline,
        chunk_run.ctx,
        chunk_run.checkpoints,
        chunk_run.limits,
        index,
        failure,
    )


def last_failure(chunk_run: ChunkRun) -> ErrorEnvelope:
    """Return the last attempt's failure: as recorded, or its worker's death."""
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
    return engine.describe_failure(error, chunk_run.ctx, chunk_run.limits)


def outcome_of_interrupt(
    lease: Lease, chunk_run: ChunkRun, services: WorkerServices
) -> Outcome:
    """Return the outcome of an interrupted run.

    Raises:
        ClaimLostError: The lease was lost.
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
    """Return the outcome of a chunk that ran too long.

    It is a retry even when no attempt is left: the recovery claim has a fresh lease.
    """
    error = TransientError(reason, code=code)
    failure = engine.describe_failure(error, chunk_run.ctx, chunk_run.limits)
    return Retry(
        failure, recovery.backoff(failure, chunk_run.ctx.attempt, chunk_run.limits.rng)
    )


# Defer what only a newer worker understands: delayed and logged, never lost.
#
# SQS hides the message, each time a little longer. Which worker receives it next is
# random, so doubling the delay would keep it from the few newer workers at the start of
# a deployment. Messages of one receive get different delays, so that different workers
# receive them. After ten receives SQS moves the message to its dead-letter queue, and a
# reconciler dispatches the chunk again.

#: Longest delay in seconds.
MAX_DELAY_S = 900.0


async def defer_to_newer_worker(
    about: str, received: int, receipt: str | None, services: WorkerServices
) -> None:
    """Hide the message of a work item that only a newer worker understands."""
    most = retry_delay(received, services.rt.settings)
    seconds = round(most * services.rt.rng.uniform(0.5, 1), 3)
    telemetry.emit(
        services.log,
        "message.deferred_newer_schema",
        about=about,
        received=received,
        delay_s=seconds,
    )
    if receipt is not None:
        await services.rt.work.hide([receipt], seconds)


def retry_delay(times: int, settings: Settings) -> float:
    """Return the delay in seconds after `times` deferrals."""
    return min(MAX_DELAY_S, max(times, 1) * settings.lease_s / 2)
