"""Run one stage: its own function, then each variant that its failures allow.

run_with_variants -> run_variant -> run_in_process or another runner -> the function

A variant starts from the checkpoints, as the next claim would. State that the variant
before it left in memory does not reach it.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from piecework import telemetry
from piecework.calls.invoke import await_result, in_thread, on_loop
from piecework.context import Context
from piecework.dependency import CURRENT
from piecework.domain import values
from piecework.domain.moments import iso
from piecework.domain.protocols import Checkpoints, WaitRequestedError
from piecework.errors import ErrorEnvelope, PermanentError, StoreError
from piecework.errors.classify import classify
from piecework.errors.payload_redaction import redact_payload
from piecework.pipelines import (
    COMPENSATE,
    REPLAN,
    RUN,
    Pipeline,
    Stage,
    function_of,
    variants,
)
from piecework.saga import recovery
from piecework.saga.recovery import RecoveryLimits


async def run_with_variants(
    pipeline: Pipeline,
    index: int,
    ctx: Context[Any],
    checkpoints: Checkpoints,
    limits: RecoveryLimits,
) -> str:
    """Run a stage's own function, then each variant that a failure opens.

    Return the value of the first one that succeeds, as JSON.

    Raises:
        Exception: The error of the last variant.
    """
    stage, attempted = pipeline.stages[index], [RUN]
    ctx.caller.counts.start_stage()
    try:
        while True:
            restore_values(pipeline, ctx, checkpoints)
            try:
                return await run_variant(stage, ctx, attempted[-1])
            except StoreError:
                raise
            except Exception as error:
                ctx.failure = failure = describe_failure(error, ctx, limits)
                variant = recovery.next_variant(
                    stage,
                    failure,
                    attempted,
                    recovery.pivot_position(pipeline, index, failure, checkpoints, ctx),
                )
                affected = ctx.caller.ledger.stages_with_effects()
                if variant is None or stage.name in affected:
                    raise
                drop_traceback(error)
            attempted.append(variant)
            emit_variant(stage, ctx, failure, attempted)
    finally:
        ctx.failure = None


async def run_variant(stage: Stage, ctx: Context[Any], variant: str = RUN) -> str:
    """Run a variant by the context's `run_stage`, and wait for all its calls.

    Return its value as JSON, and keep it in the context.

    Calls that the function left in flight are paid for, so they are drained. No effect
    may happen after its stage was compensated.

    Raises:
        Exception: The error of the function.
        ClaimLostError: A call found that the claim is lost, even if the function
            caught it.
        StoreError: A call could not reach the tables; the stage is not at fault.
    """
    caller = ctx.caller
    run = ctx.run_stage or run_in_process
    with judging_keys(ctx):
        try:
            try:
                with context_of_run(ctx) as own:
                    value = await run(stage, own, variant)
            except WaitRequestedError:
                await caller.wait_for_calls()
                raise
            except (Exception, BaseExceptionGroup) as error:
                end = caller.stop_reason
                if end is None or isinstance(end, WaitRequestedError | StoreError):
                    await caller.wait_for_calls()
                if end is not None and end is not error:
                    raise end from error
                raise
            await caller.wait_for_calls()
        except asyncio.CancelledError:
            # Also while they are drained: no call goes on after its claim.
            await caller.cut_off_calls()
            raise
        if caller.stop_reason is not None:
            raise caller.stop_reason
        caller.require_asked(ctx.scope)
        if variant != COMPENSATE:
            ctx.values[stage.name] = values.decode(stage.run, value)
        return value


@contextmanager
def judging_keys(ctx: Context[Any]) -> Iterator[None]:
    """Judge the keys of a stage's calls when it has returned or failed."""
    try:
        yield
    finally:
        ctx.caller.end_stage(ctx.stage)


@contextmanager
def context_of_run(ctx: Context[Any]) -> Iterator[Context[Any]]:
    """Provide the context of one run; when the run ends, it refuses further calls."""
    own = ctx.for_stage()
    ctx.caller.functions.by_key.clear()
    ctx.caller.slept.clear()
    ctx.caller.asked.clear()
    ctx.caller.mapped.clear()
    try:
        yield own
    finally:
        own.closed = True


async def run_in_process(stage: Stage, ctx: Context[Any], variant: str = RUN) -> str:
    """Run a variant in this process; return its value as JSON."""
    async with asyncio.timeout(stage.timeout):
        value = await invoke(function_of(stage, variant), ctx)
    return end_value(stage, variant, value, ctx)


def invoke(function: Callable[..., Any], ctx: Context[Any]) -> Awaitable[Any]:
    """Return the awaitable call of a stage function.

    A coroutine function runs on the loop, a plain function in a thread. Declared calls
    go through the context, which refuses them in a thread.
    """
    CURRENT.set(ctx)
    if inspect.iscoroutinefunction(function):
        return on_loop(function, ctx)
    return invoke_plain(function, ctx)


async def invoke_plain(function: Callable[..., Any], ctx: Context[Any]) -> Any:
    """Call a plain function in a thread, and await what it returns.

    It may return a coroutine: a decorator and a lambda hide that of another function.
    """
    return await await_result(
        await ctx.caller.run_to_completion(in_thread(function, ctx))
    )


def end_value(stage: Stage, variant: str, value: Any, ctx: Context[Any]) -> str:
    """Return a value as JSON, as the result type of the stage's own function.

    The result of a compensation is not used.

    Raises:
        PermanentError: `runtime.code.changed`: a compensation has passed over what
            another version of its stage did.
    """
    if variant != COMPENSATE:
        return values.encode(stage.run, value)
    ctx.require_asked()
    return "null"


# ── what a variant starts from ────────────────────────────────────────────────


def restore_values(
    pipeline: Pipeline, ctx: Context[Any], checkpoints: Checkpoints
) -> PermanentError | None:
    """Put the values of completed stages into the context, as the next claim would.

    Return the error of a value that cannot be read, or None. All other values are
    restored, because compensations may need them.
    """
    unreadable = None
    for stage in pipeline.stages:
        if stage.name not in checkpoints.completed:
            continue
        if stage.name in ctx.values and stage.name not in ctx.shared:
            continue
        text = checkpoints.completed[stage.name]
        try:
            ctx.values[stage.name] = values.decode(stage.run, text)
        except PermanentError as error:
            ctx.stage, unreadable = stage.name, error
    ctx.shared.clear()
    return unreadable


def next_stage(pipeline: Pipeline, checkpoints: Checkpoints) -> int | None:
    """Return the position of the first stage that has not completed; None: all have.

    An earlier version of the pipeline may have completed stages after it.
    """
    return next(
        (
            index
            for index, stage in enumerate(pipeline.stages)
            if stage.name not in checkpoints.completed
        ),
        None,
    )


def describe_failure(
    error: BaseException, ctx: Context[Any], limits: RecoveryLimits
) -> ErrorEnvelope:
    """Classify an error and redact it; only this form is decided on and stored."""
    now = limits.clock()
    trace = f"{ctx.job}/{ctx.chunk}"
    place: dict[str, Any] = {"stage": ctx.stage, "attempt": ctx.attempt}
    failure = classify(error, at=iso(now), correlation_id=trace, now=now, **place)
    return redact_payload(failure, *ctx.sensitive_data)


def drop_traceback(error: BaseException) -> None:
    """Remove the tracebacks of an error and its causes.

    Tracebacks keep the frames of the failed functions alive, with all their data. Error
    and frames often form a cycle, which the garbage collector frees late.
    """
    cause: BaseException | None = error
    while cause is not None and cause.__traceback__ is not None:
        cause.__traceback__ = None
        cause = cause.__cause__ or cause.__context__


def emit_variant(
    stage: Stage, ctx: Context[Any], failure: ErrorEnvelope, attempted: list[str]
) -> None:
    """Emit which variant of a stage runs next, and after which error."""
    ctx.progress()
    to = getattr(variants(stage)[attempted[-1]], "__name__", attempted[-1])
    fields: Mapping[str, Any] = {
        "stage": stage.name,
        "error_code": failure.code,
        "to": to,
        "times": len(attempted) - 1,
    }
    if attempted[-1] == REPLAN:
        telemetry.emit(ctx.log, "stage.replanned", **fields)
    else:
        telemetry.emit(ctx.log, "stage.fallback_used", **fields)
