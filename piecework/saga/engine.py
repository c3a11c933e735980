"""Run one chunk through its stages, or compensate them after a final failure.

A run restores the checkpoints of earlier claims, runs each further stage and writes its
checkpoint. A failure is classified and decided (`recovery.py`), and becomes an outcome.
Compensation goes in reverse order and records each step, so that another worker can
continue it after a crash.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from piecework import telemetry
from piecework.calls.call import CallCounts
from piecework.context import Context
from piecework.domain import keys
from piecework.domain.outcome import (
    CHANGED_CODE,
    OTHER_WORKERS,
    Cancelled,
    DeadLettered,
    Deferred,
    Outcome,
    Succeeded,
)
from piecework.domain.protocols import (
    CancelRequestedError,
    Checkpoints,
    WaitRequestedError,
)
from piecework.errors import ErrorEnvelope, StoreError
from piecework.errors.classify import classify
from piecework.errors.payload_redaction import redact_payload
from piecework.pipelines import COMPENSATE, Pipeline, Stage
from piecework.resilience.retry import blocked_on
from piecework.saga import recovery
from piecework.saga.compensation import CompensationRun
from piecework.saga.recovery import (
    Compensate,
    PivotPosition,
    RecoveryLimits,
    pivot_position,
)
from piecework.saga.shape import mark_named
from piecework.saga.stage import (
    describe_failure,
    drop_traceback,
    next_stage,
    restore_values,
    run_variant,
    run_with_variants,
)


async def run(  # noqa: PLR0911 -- one return for each end
    pipeline: Pipeline,
    ctx: Context[Any],
    checkpoints: Checkpoints,
    limits: RecoveryLimits,
) -> Outcome:
    """Run each stage that has not completed, in order, and return the outcome.

    An earlier version of the pipeline may have completed any of them.

    Raises:
        StoreError: A table could not be reached.
        ClaimLostError: Another worker owns the chunk.
    """
    unreadable = restore_values(pipeline, ctx, checkpoints)
    last = len(pipeline.stages) - 1
    if checkpoints.failure is not None:
        return await compensate(pipeline, ctx, checkpoints, limits, checkpoints.failure)
    if unreadable is not None:
        failure, at = describe_failure(unreadable, ctx, limits), last
        if (first := next_stage(pipeline, checkpoints)) is not None:
            at = first
        return await recover(pipeline, ctx, checkpoints, limits, at, failure)
    while (index := next_stage(pipeline, checkpoints)) is not None:
        stage = pipeline.stages[index]
        ctx.stage = stage.name
        try:
            await ctx.caller.gate.wait_at_boundary()
            value = await run_with_variants(pipeline, index, ctx, checkpoints, limits)
            following = stage_after(pipeline, index, checkpoints)
            if index == last and following is None:
                return Succeeded(value)
            await checkpoints.complete(index, value, following or stage.name)
        except CancelRequestedError:
            return Cancelled(stage.name)
        except WaitRequestedError as request:
            return request.wait
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001 -- a stage may raise anything
            failure = describe_failure(error, ctx, limits)
            drop_traceback(error)
            return await recover(pipeline, ctx, checkpoints, limits, index, failure)
        log, name, trace = ctx.log, stage.name, f"{ctx.job}/{ctx.chunk}"
        telemetry.emit(log, "stage.completed", stage=name, correlation_id=trace)
        ctx.progress()
    return Succeeded(checkpoints.completed[pipeline.stages[last].name])


def stage_after(pipeline: Pipeline, index: int, checkpoints: Checkpoints) -> str | None:
    """Return the stage that runs after the one at `index`; None: it is the last."""
    name = pipeline.stages[index].name
    return next(
        (
            stage.name
            for stage in pipeline.stages
            if stage.name not in checkpoints.completed and stage.name != name
        ),
        None,
    )


async def recover(
    pipeline: Pipeline,
    ctx: Context[Any],
    checkpoints: Checkpoints,
    limits: RecoveryLimits,
    index: int,
    failure: ErrorEnvelope,
) -> Outcome:
    """Decide on a stage's failure, carry the decision out and return the outcome."""
    counts = ctx.caller.counts
    pivot = pivot_position(pipeline, index, failure, checkpoints, ctx)
    failure = recovery.failure_to_decide(failure, counts, limits)
    decision = recovery.decide(
        failure,
        attempts_left=limits.max_attempts - ctx.attempt,
        attempt=ctx.attempt,
        pivot=pivot,
        rng=limits.rng,
        deferrals=counts.deferrals,
        budget_deferrals=counts.budget_deferrals,
        probed=counts.has_failed_probe,
        declared_s=pipeline.retry_delay_s(ctx.attempt),
    )
    match decision:
        case Compensate():
            await checkpoints.begin_compensation(failure, ctx.stage)
            return await compensate(pipeline, ctx, checkpoints, limits, failure)
        case Deferred():
            untried = index == pipeline.pivot_index and pivot is PivotPosition.AHEAD
            return with_calls(replace(decision, pivot_untried=untried), counts)
        case _:
            return decision


def with_calls(deferred: Deferred, counts: CallCounts) -> Deferred:
    """Return the deferral of a claim with these calls."""
    probe_failed = counts.probe_failure is not None
    return replace(deferred, has_progress=counts.made > 0, probe_failed=probe_failed)


async def compensate(
    pipeline: Pipeline,
    ctx: Context[Any],
    checkpoints: Checkpoints,
    limits: RecoveryLimits,
    failure: ErrorEnvelope,
) -> DeadLettered | Cancelled | Deferred:
    """Compensate the completed stages in reverse order, and those that may have acted.

    A failed compensation is recorded and emitted, and the others still run. If a
    dependency cannot be called now, the compensation is deferred, not failed. For an
    open breaker this ends at twice the limits of a chunk: the stages may have used them
    once.
    """
    ctx.caller.start_compensating()
    await ctx.caller.in_flight.wait()
    compensation = CompensationRun(pipeline, ctx, checkpoints, failure)
    compensation.emit_started()
    for step in compensation.steps():
        if step.is_due:
            restore_values(pipeline, ctx, checkpoints)
            ctx.stage = keys.compensation_stage(
                step.stage.name, checkpoints.compensation_gen
            )
            known = await ctx.caller.ledger.known_effects(step.stage.name)
            ctx.effects = mark_named(known, step.stage)
            try:
                failed = await compensate_stage(step.stage, ctx, failure)
            except WaitRequestedError as request:
                if isinstance(request.wait, Deferred):
                    return request.wait
                raise
            if failed is not None and failed.code == CHANGED_CODE:
                return Deferred(failed, 0.0, OTHER_WORKERS)
            if failed is not None and (dependency := blocked_on(failed)):
                counts, rng = ctx.caller.counts, ctx.caller.attempts.rng
                exhausted = recovery.exhausted_failure(failed, counts, limits, times=2)
                if exhausted is None:
                    wait = recovery.deferral_delay(
                        failed,
                        ctx.attempt,
                        counts.deferrals,
                        rng,
                        probed=counts.has_failed_probe,
                    )
                    return with_calls(Deferred(failed, wait, dependency), counts)
                failed = exhausted
            await checkpoints.record_compensation(step.stage.name, failed)
            compensation.emit_step(step.stage, failed)
            ctx.progress()
    return compensation.finish()


async def compensate_stage(
    stage: Stage, ctx: Context[Any], failure: ErrorEnvelope
) -> ErrorEnvelope | None:
    """Run one compensation; return its failure, or None if it succeeded."""
    try:
        await run_variant(stage, ctx, COMPENSATE)
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
