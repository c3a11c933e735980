"""Run one stage: its own function, then each variant that its failures allow.

A variant starts from the checkpoints, as the next claim would. State that the variant
before it left in memory does not reach it.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from piecework import pipeline, telemetry
from piecework.calls.invoke import await_result, in_thread, on_loop
from piecework.context import Context
from piecework.domain import values
from piecework.errors import ErrorEnvelope, StoreError
from piecework.pipeline import COMPENSATE, REPLAN, RUN, Stage
from piecework.saga import recovery
from piecework.saga.recovery import Pivot


async def run_with_fallbacks(
    stage: Stage,
    ctx: Context[Any],
    *,
    restore: Callable[[], object],
    describe: Callable[[Exception], ErrorEnvelope],
    pivot: Callable[[ErrorEnvelope], Pivot],
) -> str:
    """Run a stage, then its other variants until one succeeds; return its JSON value.

    `restore` resets the context to the checkpoints, `describe` classifies an error, and
    `pivot` locates the pivot for a failure.

    Raises:
        Exception: The error of the last variant.
    """
    attempted = [RUN]
    ledger = ctx.caller.ledger
    try:
        while True:
            try:
                return await run_variant(stage, ctx, attempted[-1])
            except StoreError:
                raise
            except Exception as error:
                ctx.failure = failure = describe(error)
                pivot_at = pivot(failure)
                variant = recovery.next_variant(stage, failure, attempted, pivot_at)
                if variant is None or stage.name in ledger.stages_with_effects():
                    raise
                drop_traceback(error)
            attempted.append(variant)
            emit_variant(stage, ctx, failure, attempted)
            restore()
    finally:
        ctx.failure = None


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
    to = getattr(pipeline.variants(stage)[attempted[-1]], "__name__", attempted[-1])
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


async def run_variant(stage: Stage, ctx: Context[Any], variant: str = RUN) -> str:
    """Run a variant, keep its value in the context and return the value as JSON."""
    text = await run_on(stage, ctx, variant)
    ctx.values[stage.name] = values.decode(stage.run, text)
    return text


async def run_on(stage: Stage, ctx: Context[Any], variant: str) -> str:
    """Run a variant on the context's runner, and wait for all its calls.

    Calls that the function left in flight are paid for, so they are drained. No effect
    may happen after its stage was compensated. After the end, the closed context
    refuses further calls.

    Raises:
        Exception: The error of the function.
        ClaimLostError: A call found that the claim is lost, even if the function
            caught it.
        StoreError: A call could not reach the tables; the stage is not at fault.
    """
    try:
        value = await run_and_close(stage, ctx.for_stage(), variant)
    except (Exception, BaseExceptionGroup) as error:
        end = ctx.caller.fatal_error
        if end is not None and end is not error:
            raise end from error
        if not isinstance(error, StoreError):
            await ctx.caller.drain()
        raise
    await ctx.caller.drain()
    if ctx.caller.fatal_error is not None:
        raise ctx.caller.fatal_error
    return value


async def run_and_close(stage: Stage, ctx: Context[Any], variant: str) -> str:
    """Run a variant with its own context, and close the context at the end."""
    run = run_in_process if ctx.runner is None else ctx.runner.run
    try:
        return await run(stage, ctx, variant)
    finally:
        ctx.closed = True


async def run_in_process(stage: Stage, ctx: Context[Any], variant: str = RUN) -> str:
    """Run a variant in this process."""
    function = pipeline.function_of(stage, variant)
    if stage.timeout is None:
        value = await invoke(function, ctx)
    else:
        async with asyncio.timeout(stage.timeout):
            value = await invoke(function, ctx)
    return encode_value(stage, variant, value)


async def invoke(function: Callable[..., Any], ctx: Context[Any]) -> Any:
    """Call a stage function: a coroutine on the loop, a plain function in a thread."""
    if inspect.iscoroutinefunction(function):
        return await on_loop(function, ctx)
    return await await_result(
        await ctx.caller.run_to_completion(in_thread(function, ctx))
    )


def encode_value(stage: Stage, variant: str, value: Any) -> str:
    """Return a value as JSON, as the result type of the stage's own function.

    The result of a compensation is not used.
    """
    return "null" if variant == COMPENSATE else values.encode(stage.run, value)
