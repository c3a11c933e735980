"""Run one stage: by its own function, then by each other way that its failures open.

A way begins with what the checkpoints hold, as the next claim would: nothing that the
one before it has left in memory reaches it.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from piecework import recovery, telemetry, values, ways
from piecework.contained import in_thread, on_loop, rest_of
from piecework.context import Context
from piecework.errors import ErrorEnvelope, StoreError
from piecework.pipeline import Stage
from piecework.recovery import Pivot
from piecework.ways import REPLAN, RUN, UNDO


async def run_with_fallbacks(
    stage: Stage,
    ctx: Context[Any],
    *,
    restored: Callable[[], object],
    described: Callable[[Exception], ErrorEnvelope],
    pivot: Callable[[ErrorEnvelope], Pivot],
) -> str:
    """Return a stage's value as JSON, whichever way it came by.

    Raises:
        Exception: What the last way raised.
    """
    tried = [RUN]
    try:
        while True:
            try:
                return await run_stage(stage, ctx, tried[-1])
            except StoreError:
                raise
            except Exception as error:
                ctx.failure = failure = described(error)
                way = recovery.next_variant(stage, failure, tried, pivot(failure))
                if way is None or stage.name in ctx.caller.ledger.standing():
                    raise
                drop_traceback(error)
            tried.append(way)
            tell(stage, ctx, failure, tried)
            restored()
    finally:
        ctx.failure = None


def drop_traceback(error: BaseException) -> None:
    """Let go of all that the functions had in hand that an error came through.

    They and the error often hold each other, and the garbage collector looks seldom.
    """
    behind: BaseException | None = error
    while behind is not None and behind.__traceback__ is not None:
        behind.__traceback__ = None
        behind = behind.__cause__ or behind.__context__


def tell(
    stage: Stage, ctx: Context[Any], failure: ErrorEnvelope, tried: list[str]
) -> None:
    """Tell which other way a stage goes, and why."""
    ctx.progress()
    to = getattr(ways.functions(stage)[tried[-1]], "__name__", tried[-1])
    said: Mapping[str, Any] = {
        "stage": stage.name,
        "error_code": failure.code,
        "to": to,
        "times": len(tried) - 1,
    }
    if tried[-1] == REPLAN:
        telemetry.emit(ctx.log, "stage.replanned", **said)
    else:
        telemetry.emit(ctx.log, "stage.fallback_used", **said)


async def run_stage(stage: Stage, ctx: Context[Any], way: str = RUN) -> str:
    """Do a stage, keep its value in the context and return it as JSON."""
    text = await on_bench(stage, ctx, way)
    ctx.values[stage.name] = values.decode(stage.run, text)
    return text


async def on_bench(stage: Stage, ctx: Context[Any], way: str) -> str:
    """Do a stage, or undo it, where the context says, together with all its calls.

    Those that it left under way are paid for, and no effect may land after it was
    undone. Whatever else it left behind makes no further ones.

    Raises:
        Exception: What it raised.
        ClaimLostError: One of its calls found that out, whatever it made of that.
        StoreError: The same of our tables: no fault of the stage's.
    """
    try:
        value = await until_over(stage, ctx.handed_out(), way)
    except (Exception, BaseExceptionGroup) as error:
        end = ctx.caller.ended_by
        if end is not None and end is not error:
            raise end from error
        if not isinstance(error, StoreError):
            await ctx.caller.landed()
        raise
    await ctx.caller.landed()
    if ctx.caller.ended_by is not None:
        raise ctx.caller.ended_by
    return value


async def until_over(stage: Stage, given: Context[Any], way: str) -> str:
    """Do a stage, or undo it, with a context that ends with it."""
    run = in_process if given.bench is None else given.bench.run
    try:
        return await run(stage, given, way)
    finally:
        given.over = True


async def in_process(stage: Stage, ctx: Context[Any], way: str = RUN) -> str:
    """Do a stage, or undo it, in this process."""
    function = ways.function(stage, way)
    if stage.timeout is None:
        value = await invoke(function, ctx)
    else:
        async with asyncio.timeout(stage.timeout):
            value = await invoke(function, ctx)
    return encoded(stage, way, value)


async def invoke(function: Callable[..., Any], ctx: Context[Any]) -> Any:
    """Call a stage function on the loop or, if it is a plain one, beside it."""
    if inspect.iscoroutinefunction(function):
        return await on_loop(function, ctx)
    return await rest_of(await ctx.caller.to_its_end(in_thread(function, ctx)))


def encoded(stage: Stage, way: str, value: Any) -> str:
    """Return a stage's value as JSON: of the type of its own function, in any way.

    Nobody reads what a compensation returns.
    """
    return "null" if way == UNDO else values.encode(stage.run, value)
