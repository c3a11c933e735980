"""The outcomes of claims whose stages do not run to their end.

The payload or the records cannot be read, or the attempts are spent. Or the lease
interrupts the work, or a cancel compensates it. Each becomes an outcome here, so that
the worker settles all outcomes in one place.
"""

from __future__ import annotations

from dataclasses import replace

from piecework.domain.moments import moment
from piecework.domain.outcome import (
    CHANGED_CODE,
    NO_STAGE_CODE,
    OTHER_WORKERS,
    STORE,
    WORKER,
    Asking,
    Batching,
    Cancelled,
    CompensationResult,
    DeadLettered,
    Deferred,
    Mapped,
    Outcome,
    Paused,
    Released,
    Retry,
    Sleeping,
)
from piecework.domain.protocols import ClaimLostError
from piecework.errors import (
    WORKER_OUTAGES,
    ErrorEnvelope,
    SchemaTooNewError,
    StoreError,
    TransientError,
)
from piecework.saga import engine, recovery
from piecework.saga.compensation import (
    UNTOUCHED,
    StepState,
    cancellation_cause,
    compensation_plan,
    needs_nothing,
)
from piecework.saga.stage import describe_failure
from piecework.settings import Settings
from piecework_worker.assembly import ChunkRun
from piecework_worker.lease import InterruptReason


def outcome_of_load_failure(
    chunk_run: ChunkRun, error: Exception, settings: Settings
) -> Outcome:
    """Return the outcome of a chunk whose state this worker cannot load.

    A chunk with state of a newer schema is deferred until a newer worker claims it,
    without a limit. A chunk whose stage this worker's pipeline lacks, or that must not
    go on with its code, is deferred too, but only a limited number of times.
    """
    failure = describe_failure(error, chunk_run.ctx, chunk_run.limits)
    times = chunk_run.claim.chunk.deferrals
    if not isinstance(error, SchemaTooNewError):
        times = chunk_run.claim.chunk.stage_deferrals
        waits = failure.code in {NO_STAGE_CODE, CHANGED_CODE}
        if not waits or times >= settings.max_code_waits:
            return outcome_of_unreadable(chunk_run, failure)
    return deferred_to_newer(failure, times, settings)


def outcome_of_changed_code(chunk_run: ChunkRun, settings: Settings) -> Outcome:
    """Return the run's outcome; a stage that must not go on waits a limited time."""
    match chunk_run.outcome:
        case Deferred(failure) as deferred if deferred.blocked_on == OTHER_WORKERS:
            times = chunk_run.claim.chunk.stage_deferrals
            attempt = {"attempt": chunk_run.ctx.attempt}
            failure = failure.model_copy(update=attempt)
            if times >= settings.max_code_waits:
                return outcome_of_unreadable(chunk_run, failure)
            untried = is_pivot_untried(chunk_run)
            waiting = deferred_to_newer(failure, times, settings)
            return replace(waiting, pivot_untried=untried)
        case outcome:
            return outcome


def deferred_to_newer(
    failure: ErrorEnvelope, times: int, settings: Settings
) -> Deferred:
    """Return the outcome of a chunk that waits for another version of the worker."""
    delay = retry_delay(times + 1, settings)
    waiting = failure.model_copy(update={"retry_after": delay})
    return Deferred(waiting, delay, OTHER_WORKERS)


def outcome_of_unreadable(chunk_run: ChunkRun, failure: ErrorEnvelope) -> Outcome:
    """Return the outcome of a chunk whose payload or checkpoints cannot be read.

    Without them nothing can be compensated. If an earlier claim completed a stage with
    a compensation, or made an effect, an operator has to act. If the ledger cannot be
    read either, each stage with a compensation may have acted.
    """
    attempts_left = chunk_run.limits.max_attempts - chunk_run.ctx.attempt
    if failure.retryable and attempts_left > 0:
        return retry_later(chunk_run, failure)
    checkpoints, stages = chunk_run.checkpoints, chunk_run.pipeline.stages
    affected = {stage.name for stage in stages if stage.compensate}
    if checkpoints.reached_stage:  # the ledger was loaded before it
        affected = chunk_run.ledger.stages_with_effects()
    steps = compensation_plan(chunk_run.pipeline, failure, checkpoints, affected)
    if chunk_run.claim.is_first or (steps and needs_nothing(steps)):
        return DeadLettered(failure, CompensationResult.NOT_NEEDED)
    done = {*UNTOUCHED, StepState.COMPENSATED}
    left = [step.stage.name for step in reversed(steps) if step.state not in done]
    return DeadLettered(failure, CompensationResult.ABANDONED, tuple(left))


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
    errors, claim = chunk_run.error_history, chunk_run.claim
    if errors and errors[-1].attempt == (claim.gen, claim.attempt):
        return errors[-1].failure
    message = "The worker died with the chunk, in its last attempt."
    error = TransientError(message, code="runtime.worker.lost")
    chunk_run.ctx.stage = chunk_run.checkpoints.reached_stage
    return describe_failure(error, chunk_run.ctx, chunk_run.limits)


def outcome_of_interrupt(chunk_run: ChunkRun, settings: Settings) -> Outcome:
    """Return the outcome of an interrupted run.

    Raises:
        ClaimLostError: The lease was lost.
    """
    match chunk_run.lease.reason:
        case InterruptReason.CANCEL:
            return Cancelled(chunk_run.ctx.stage or chunk_run.claim.chunk.stage)
        case InterruptReason.STOPPING:
            return Released()
        case InterruptReason.PAUSED:
            return Paused()
        case InterruptReason.STALLED:
            seconds = f"{settings.stall_timeout_s:g} s"
            reason = f"No call ended and no `ctx.progress()` came for {seconds}."
            return retry_after_timeout(chunk_run, "runtime.stage.stalled", reason)
        case InterruptReason.TIMEOUT:
            reason = f"The chunk ran for more than {settings.max_runtime_s:g} s."
            return retry_after_timeout(chunk_run, "runtime.stage.timeout", reason)
        case _:
            raise ClaimLostError


def with_pivot_untried(chunk_run: ChunkRun) -> Outcome:
    """Return the run's outcome; a wait notes whether its pivot was tried.

    A later failure of an untried pivot may still be compensated.
    """
    match chunk_run.outcome:
        case Paused() | Sleeping() | Batching() | Asking() | Mapped() as waits:
            return replace(waits, pivot_untried=is_pivot_untried(chunk_run))
        case Released() as released if chunk_run.ctx.caller.gate.was_held:
            return replace(released, pivot_untried=is_pivot_untried(chunk_run))
        case outcome:
            return outcome


def is_pivot_untried(chunk_run: ChunkRun) -> bool:
    """Return whether a run ended at its pivot before it tried anything there."""
    pipeline, ctx = chunk_run.pipeline, chunk_run.ctx
    pivot = [s.name for s in pipeline.stages[pipeline.pivot_index :][:1]]
    if [ctx.stage] != pivot:
        return False
    counts, reached = ctx.caller.counts, chunk_run.checkpoints.reached_stage
    tried_before = reached == ctx.stage and counts.untried != ctx.stage
    affected = ctx.stage in ctx.caller.ledger.stages_with_effects()
    return not (tried_before or affected or counts.stage_retried or counts.stage_failed)


def outcome_of_store_error(chunk_run: ChunkRun, error: StoreError) -> Outcome:
    """Return the outcome of a run that could not reach its tables, queue or bucket.

    An outage defers the chunk, however long it lasts: the chunk is not its cause. So
    does a worker that lacks what a process needs. A single refused request only
    releases the chunk, because the chunk may be its cause.
    """
    if not error.is_outage:
        return Released()
    chunk, limits = chunk_run.claim.chunk, chunk_run.limits
    of_worker = error.code in WORKER_OUTAGES
    times = chunk.exhaustions if of_worker else chunk.outages
    delay = recovery.outage_delay(times, limits.rng)
    failure = describe_failure(error, chunk_run.ctx, limits)
    blocked_on = WORKER if of_worker else STORE
    return Deferred(
        failure.model_copy(update={"retry_after": delay}), delay, blocked_on
    )


def retry_after_timeout(chunk_run: ChunkRun, code: str, reason: str) -> Retry:
    """Return the outcome of a chunk that ran too long.

    It is a retry even when no attempt is left: the recovery claim has a fresh lease.
    """
    error = TransientError(reason, code=code)
    failure = describe_failure(error, chunk_run.ctx, chunk_run.limits)
    return retry_later(chunk_run, failure)


def retry_later(chunk_run: ChunkRun, failure: ErrorEnvelope) -> Retry:
    """Return the retry of a run that failed outside of its stages."""
    attempt, rng = chunk_run.ctx.attempt, chunk_run.limits.rng
    declared_s = chunk_run.pipeline.retry_delay_s(attempt)
    return Retry(failure, recovery.backoff(failure, attempt, rng, declared_s))


async def compensate_cancelled(chunk_run: ChunkRun, stage: str) -> Outcome:
    """Compensate a chunk that a cancel interrupted before its pivot.

    An effect in flight is drained first: it must not happen after its compensation.
    """
    await chunk_run.ctx.caller.wait_for_calls()
    if chunk_run.checkpoints.failure is None:
        failure = cancellation_cause(
            chunk_run.claim.ref, stage, chunk_run.limits.clock()
        )
        await chunk_run.checkpoints.begin_compensation(failure, stage)
    return await engine.compensate(
        chunk_run.pipeline,
        chunk_run.ctx,
        chunk_run.checkpoints,
        chunk_run.limits,
        chunk_run.checkpoints.failure or failure,
    )


def count_calls_after_cancel(chunk_run: ChunkRun) -> int | None:
    """Count the run's calls that ended after the cancel request; None: no cancel."""
    cancel = chunk_run.state.cancel
    if cancel is None:
        return None
    return chunk_run.ctx.caller.counts.count_ended_after(moment(cancel.at))


# ── defer what only a newer worker understands ────────────────────────────────
#
# SQS hides the message, each time a little longer. A random worker receives it next. A
# delay that doubles would keep it from the few newer workers at the start of a
# deployment. Messages of one receive get different delays, so that different workers
# receive them. After ten receives SQS moves the message to its dead-letter queue, and a
# reconciler dispatches the chunk again.

#: Longest delay in seconds.
MAX_DELAY_S = 900.0


def retry_delay(times: int, settings: Settings) -> float:
    """Return the delay in seconds after `times` deferrals."""
    return min(MAX_DELAY_S, max(times, 1) * settings.lease_s / 2)
