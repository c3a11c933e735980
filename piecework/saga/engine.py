"""Run one chunk through its stages, or compensate them after a final failure.

A run restores the checkpoints of earlier claims, runs each further stage and writes its
checkpoint. A failure is classified and decided (`recovery.py`), and becomes an outcome.
Compensation goes in reverse order and records each step, so that another worker can
continue it after a crash.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from piecework import telemetry
from piecework.context import Context
from piecework.domain import keys, values
from piecework.domain.model import iso
from piecework.domain.outcome import (
    Cancelled,
    DeadLettered,
    Deferred,
    Outcome,
    Retry,
    Succeeded,
)
from piecework.domain.protocols import CancelRequestedError, Checkpoints
from piecework.errors import ErrorEnvelope, PermanentError, StoreError
from piecework.errors.classify import classify
from piecework.errors.payload_redaction import redact_payload
from piecework.pipeline import COMPENSATE, Pipeline, Stage
from piecework.resilience.breaker import OPEN_CODE
from piecework.resilience.retry import blocked_on
from piecework.saga import recovery
from piecework.saga.compensation import CompensationRun
from piecework.saga.recovery import DeadLetter, Pivot, RetryLater
from piecework.saga.stage import drop_traceback, run_on, run_with_fallbacks

#: Codes of failures that may come after the effect of a stage or a call.
POST_EFFECT_CODES = {
    "runtime.effect.unknown",
    "runtime.value.too_large",
    "runtime.value.unserialisable",
    "runtime.value.unreadable",
}


@dataclass(frozen=True, slots=True)
class Limits:
    """The limit of attempts, the clock and the random source of a run."""

    max_attempts: int
    clock: Callable[[], float]
    rng: Random


async def run(
    pipeline: Pipeline, ctx: Context[Any], checkpoints: Checkpoints, limits: Limits
) -> Outcome:
    """Run the stages from the last checkpoint, and return the outcome.

    Raises:
        StoreError: A table could not be reached.
        ClaimLostError: Another worker has the chunk.
    """
    unreadable = restore_values(pipeline, ctx, checkpoints)
    if checkpoints.failure is not None:
        return await compensate(pipeline, ctx, checkpoints, checkpoints.failure)
    done = count_completed(pipeline, checkpoints)
    if unreadable is not None:
        failure = describe_failure(unreadable, ctx, limits)
        return await recover(pipeline, ctx, checkpoints, limits, done, failure)
    for index in range(done, len(pipeline.stages)):
        stage = pipeline.stages[index]
        ctx.stage = stage.name
        try:
            value = await run_stage(pipeline, ctx, checkpoints, limits, index)
            if index == len(pipeline.stages) - 1:
                return Succeeded(value)
            await checkpoints.complete(index, value, pipeline.stages[index + 1].name)
        except CancelRequestedError:
            return Cancelled(stage.name)
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001 -- a stage may raise anything
            failure = describe_failure(error, ctx, limits)
            drop_traceback(error)
            return await recover(pipeline, ctx, checkpoints, limits, index, failure)
        log, name, trace = ctx.log, stage.name, f"{ctx.job}/{ctx.chunk}"
        telemetry.emit(log, "stage.completed", stage=name, correlation_id=trace)
        ctx.progress()
    message = "a pipeline has at least one stage, and its last one returns"
    raise AssertionError(message)


def restore_values(
    pipeline: Pipeline, ctx: Context[Any], checkpoints: Checkpoints
) -> PermanentError | None:
    """Put the values of completed stages into the context, as the next claim would.

    Return the error of a value that cannot be read, or None. All other values are
    restored, because compensations may need them.
    """
    unreadable = None
    for stage in pipeline.stages[: count_completed(pipeline, checkpoints)]:
        if stage.name in ctx.values and stage.name not in ctx.shared:
            continue
        text = checkpoints.completed[stage.name]
        try:
            ctx.values[stage.name] = values.decode(stage.run, text)
        except PermanentError as error:
            ctx.stage, unreadable = stage.name, error
    ctx.shared.clear()
    return unreadable


def count_completed(pipeline: Pipeline, checkpoints: Checkpoints) -> int:
    """Return how many stages from the first one are completed without a gap.

    A stage after a compensated one runs again.
    """
    names = [stage.name for stage in pipeline.stages]
    return next(
        (i for i, name in enumerate(names) if name not in checkpoints.completed),
        len(names),
    )


async def run_stage(
    pipeline: Pipeline,
    ctx: Context[Any],
    checkpoints: Checkpoints,
    limits: Limits,
    index: int,
) -> str:
    """Run a stage with all its variants, and return its value as JSON."""
    restore_values(pipeline, ctx, checkpoints)
    ctx.caller.counts.start_stage()
    return await run_with_fallbacks(
        pipeline.stages[index],
        ctx,
        restore=lambda: restore_values(pipeline, ctx, checkpoints),
        describe=lambda error: describe_failure(error, ctx, limits),
        pivot=lambda failed: pivot_position(pipeline, index, failed, checkpoints, ctx),
    )


def describe_failure(
    error: BaseException, ctx: Context[Any], limits: Limits
) -> ErrorEnvelope:
    """Classify an error and redact it; only this form is decided on and stored."""
    now = limits.clock()
    trace = f"{ctx.job}/{ctx.chunk}"
    place: dict[str, Any] = {"stage": ctx.stage, "attempt": ctx.attempt}
    failure = classify(error, at=iso(now), correlation_id=trace, now=now, **place)
    return redact_payload(failure, *ctx.sensitive_data)


async def recover(
    pipeline: Pipeline,
    ctx: Context[Any],
    checkpoints: Checkpoints,
    limits: Limits,
    index: int,
    failure: ErrorEnvelope,
) -> Outcome:
    """Decide on a stage's failure, carry the decision out and return the outcome."""
    pivot = pivot_position(pipeline, index, failure, checkpoints, ctx)
    decision = recovery.decide(
        failure,
        attempts_left=limits.max_attempts - ctx.attempt,
        attempt=ctx.attempt,
        pivot=pivot,
        rng=limits.rng,
        deferrals=ctx.caller.counts.deferrals,
    )
    match decision:
        case RetryLater(delay, blocked_on):
            if not blocked_on:
                return Retry(failure, delay)
            untried = index == pipeline.pivot_index and pivot is Pivot.AHEAD
            return Deferred(failure, delay, blocked_on, untried)
        case DeadLetter(reason):
            return DeadLettered(failure, reason)
        case _:
            await checkpoints.begin_compensation(failure, ctx.stage)
            return await compensate(pipeline, ctx, checkpoints, failure)


def pivot_position(
    pipeline: Pipeline,
    index: int,
    failure: ErrorEnvelope,
    checkpoints: Checkpoints,
    ctx: Context[Any],
) -> Pivot:
    """Return where the pivot lies, seen from the failed stage at `index`.

    A failed pivot counts as not executed only if all of these hold: it was its first
    attempt in its first claim, the error is not transient, the error is not about the
    answer, and no effect of the stage may have happened. If the circuit breaker refused
    the call, the pivot was not attempted; this holds for any number of claims.
    """
    if index < pipeline.pivot_index:
        return Pivot.AHEAD
    if index > pipeline.pivot_index:
        return Pivot.BEHIND
    counts = ctx.caller.counts
    by_others = checkpoints.reached_stage == ctx.stage and counts.untried != ctx.stage
    tried_before = by_others or counts.stage_retried
    stands = ctx.stage in ctx.caller.ledger.stages_with_effects()
    happened = tried_before or stands or failure.code in POST_EFFECT_CODES
    not_asked = failure.code == OPEN_CODE and not counts.stage_failed
    said_no = not_asked or not failure.retryable
    return Pivot.AHEAD if said_no and not happened else Pivot.IN_DOUBT


async def compensate(
    pipeline: Pipeline,
    ctx: Context[Any],
    checkpoints: Checkpoints,
    failure: ErrorEnvelope,
) -> DeadLettered | Cancelled | Deferred:
    """Compensate every started stage in reverse order, including one in doubt.

    A failed compensation is recorded and emitted, and the others still run. If the
    dependency's breaker is open, the compensation is deferred, not failed.
    """
    ctx.caller.start_compensating()
    await ctx.caller.in_flight.wait()
    compensation = CompensationRun(pipeline, ctx, checkpoints, failure)
    compensation.emit_started()
    for step in compensation.steps():
        if step.is_due:
            restore_values(pipeline, ctx, checkpoints)
            ctx.stage = keys.compensation_stage(step.stage.name, ctx.caller.gen)
            failed = await compensate_stage(step.stage, ctx, failure)
            if failed is not None and (dependency := blocked_on(failed)):
                deferrals, rng = ctx.caller.counts.deferrals, ctx.caller.attempts.rng
                wait = recovery.deferral_delay(failed, ctx.attempt, deferrals, rng)
                return Deferred(failed, wait, dependency)
            await checkpoints.record_compensation(step.stage.name, failed)
            compensation.emit_step(step.stage, failed)
            ctx.progress()
    return compensation.finish()


async def compensate_stage(
    stage: Stage, ctx: Context[Any], failure: ErrorEnvelope
) -> ErrorEnvelope | None:
    """Run one compensation; return its failure, or None if it succeeded."""
    try:
        await run_on(stage, ctx, COMPENSATE)
    except StoreError:
        raise
    except Exception as error:  # noqa: BLE001 -- any error is its failure
        failed = classify(
            error,
            stage=ctx.stage,
            attempt=ctx.attempt,
            at=failure.at,
            correlation_id=failure.correlation_id,
        )
        return redact_payload(failed, *ctx.sensitive_data)
    return None
