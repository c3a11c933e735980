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
from workers.load import load
from workers.newer import until_next
from workers.set_up import Task, build_run
from workers.station import WorkerServices


@dataclass(frozen=True, slots=True)
class RunResult:
    """What came of the work on a chunk.

    Attributes:
        calls_after_cancel: Calls that ended after a cancel request; None: no request.
    """

    task: Task
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
    task = build_run(lease, job, pipeline, services, log)
    try:
        outcome = await run_while_leased(
            lease, task, services, run(task, job, services)
        )
        asked = lease.cancel or task.checkpoints.cancel
        undo = asked is not None and asked.compensate
        if isinstance(outcome, Cancelled) and outcome.compensation is None and undo:
            lease.begin_compensation()
            outcome = await run_while_leased(
                lease, task, services, wind_back(task, outcome.stage)
            )
    except ClaimLostError:
        await task.journal.close(keep=False)
        raise
    finally:
        task.ctx.caller.effect_drain.abandon()
    return RunResult(task, outcome, calls_after_cancel(task, asked))


async def run_while_leased(
    lease: Lease,
    task: Task,
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
        telemetry.emit(task.ctx.log, "chunk.store_failed", error_code=error.code)
        return Released()
    return outcome_of_interrupt(lease, task, services)


async def run(task: Task, job: Job, services: WorkerServices) -> Outcome:
    """Take over what earlier claims left, then go on from there."""
    try:
        await load(task, job, services)
    except Exception as error:
        if isinstance(error, StoreError) and not isinstance(error, SchemaTooNewError):
            raise
        return on_load_failure(task, spoilt(task, error), services)
    task.loaded = True
    if task.claim.is_recovery and task.claim.recoveries > MAX_RECOVERIES:
        failure = task.checkpoints.failure or last_failure(task)
        return DeadLettered(failure, Compensation.ABANDONED)
    if task.claim.is_recovery and task.checkpoints.failure is None:
        return await recover_spent(task)
    return await saga.run(task.stages, task.ctx, task.checkpoints, task.limits)


def on_load_failure(task: Task, error: Exception, services: WorkerServices) -> Outcome:
    """Decide on a chunk that cannot be gone on with here: perhaps it can elsewhere.

    What a newer version left is for newer workers, however long it takes. A stage that
    this pipeline lacks may be one that theirs has: they are waited for, for a while.
    """
    failure = saga.describe_failure(error, task.ctx, task.limits)
    deferrals = int(task.claim.chunk.item.get("deferrals", 0))
    renamed = (
        failure.code == "runtime.stage.not_found" and deferrals < recovery.MAX_DEFERRALS
    )
    if not renamed and not isinstance(error, SchemaTooNewError):
        return unreadable(task, failure)
    delay = until_next(deferrals + 1, services.rt.settings)
    waiting = failure.model_copy(update={"retry_after": delay})
    return Deferred(waiting, delay, NEWER_WORKERS)


def spoilt(task: Task, error: Exception) -> Exception:
    """Return what to say of a record that cannot be read: somebody edited a row."""
    if not isinstance(error, record.MALFORMED_ERRORS):
        return error
    what = f"A row of chunk {task.claim.ref}"
    return record.unreadable_error(what, f"cannot be read: {type(error).__name__}")


async def wind_back(task: Task, stage: str) -> Outcome:
    """Undo what a chunk has done that was stopped at a stage before its pivot.

    An effect that was under way lands first: it must not happen after it was undone.
    """
    await task.ctx.caller.drain()
    if task.checkpoints.failure is None:
        failure = cancellation_cause(task.claim.ref, stage, task.limits.clock())
        await task.checkpoints.begin_compensation(failure, stage)
    return await saga.compensate(
        task.stages, task.ctx, task.checkpoints, task.checkpoints.failure or failure
    )


def calls_after_cancel(task: Task, asked: CancelRequest | None) -> int | None:
    """Count the calls of the work that ended after a cancel was asked for."""
    if asked is None:
        return None
    return task.ctx.caller.counts.count_ended_after(moment(asked.at))


def unreadable(task: Task, failure: ErrorEnvelope) -> Outcome:
    """Decide on a chunk whose payload or checkpoints cannot be read.

    Nothing can be undone without them: if anything was begun, a person has to look.
    """
    attempts_left = task.limits.max_attempts - task.ctx.attempt
    if failure.retryable and attempts_left > 0:
        delay = recovery.backoff(failure, task.ctx.attempt, task.limits.rng)
        return Retry(failure, delay)
    untouched = (
        task.claim.is_first
        or task.checkpoints.reached_stage == task.stages.stages[0].name
    )
    return DeadLettered(
        failure, Compensation.NOT_NEEDED if untouched else Compensation.ABANDONED
    )


async def recover_spent(task: Task) -> Outcome:
    """Undo and bury a chunk whose attempts are spent without an end on record."""
    failure = last_failure(task)
    names = [stage.name for stage in task.stages.stages]
    index = names.index(task.checkpoints.reached_stage)
    task.ctx.stage = task.checkpoints.reached_stage
    return await saga.recover(
        task.stages, task.ctx, task.checkpoints, task.limits, index, failure
    )


def last_failure(task: Task) -> ErrorEnvelope:
    """Return what ended the last attempt: by its record, else its worker's death."""
    trail = task.trail
    last = (trail[-1]["gen"], trail[-1]["attempt"]) if trail else None
    if last == (task.claim.gen, task.claim.attempt):
        return read_error(trail[-1])
    message = "The worker died with the chunk, in its last attempt."
    error = TransientError(message, code="runtime.worker.lost")
    task.ctx.stage = task.checkpoints.reached_stage
    return saga.describe_failure(error, task.ctx, task.limits)


def outcome_of_interrupt(lease: Lease, task: Task, services: WorkerServices) -> Outcome:
    """Turn an end from outside into an outcome.

    Raises:
        ClaimLostError: It was the claim that ended.
    """
    settings = services.rt.settings
    match lease.reason:
        case InterruptReason.CANCEL:
            return Cancelled(task.ctx.stage or str(task.claim.chunk.item["stage"]))
        case InterruptReason.STOPPING:
            return Released()
        case InterruptReason.STALLED:
            said = f"No call or stage ended for {settings.stall_timeout_s:g} s."
            return timed_out(task, "runtime.stage.stalled", said)
        case InterruptReason.TIMEOUT:
            said = f"The chunk ran for more than {settings.max_runtime_s:g} s."
            return timed_out(task, "runtime.stage.timeout", said)
        case _:
            raise ClaimLostError


def timed_out(task: Task, code: str, said: str) -> Retry:
    """Return the outcome of a chunk that took too long.

    It is retried even if its attempts are spent: the next worker that claims it has
    a fresh lease for the recovery.
    """
    error = TransientError(said, code=code)
    failure = saga.describe_failure(error, task.ctx, task.limits)
    return Retry(failure, recovery.backoff(failure, task.ctx.attempt, task.limits.rng))
