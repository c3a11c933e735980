"""Carry one chunk through its stages: forward, or backwards when it fails for good.

The steps of a run, in order: restore what earlier claims have checkpointed, run each
further stage, checkpoint it. A failure is classified, decided (`recovery.py`) and
becomes an outcome; the way back undoes in reverse, one recorded step at a time, so
that a worker that dies on it is followed by another that goes on backwards.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from piecework import recovery, telemetry, values
from piecework.classify import classify
from piecework.context import Context
from piecework.errors import ErrorEnvelope, PermanentError, StoreError
from piecework.model import iso
from piecework.outcome import Cancelled, Compensation, Completed, Dead, Outcome, Parked
from piecework.pipeline import Pipeline, Stage
from piecework.ports import CancelRequestedError, Checkpoints
from piecework.recovery import Again, Bury, Pivot
from piecework.winding_back import CANCELLED

#: Codes of failures that come after the work of a stage or of a call, or may do.
AFTERWARDS = {
    "runtime.effect.unknown",
    "runtime.value.unserialisable",
    "runtime.value.unreadable",
}


@dataclass(frozen=True, slots=True)
class Limits:
    """What a run may spend before it is handed out again or given up."""

    max_attempts: int
    clock: Callable[[], float]
    rng: Random


async def run(
    pipeline: Pipeline, ctx: Context[Any], checkpoints: Checkpoints, limits: Limits
) -> Outcome:
    """Walk the stages from the last checkpoint; on failure decide, then recover."""
    unreadable = restore(pipeline, ctx, checkpoints)
    if checkpoints.failure is not None:
        return await compensate(pipeline, ctx, checkpoints, checkpoints.failure)
    done = stages_done(pipeline, checkpoints)
    if unreadable is not None:
        failure = envelope(unreadable, ctx, limits)
        return await recover(pipeline, ctx, checkpoints, limits, done, failure)
    for index in range(done, len(pipeline.stages)):
        stage = pipeline.stages[index]
        ctx.stage = stage.name
        try:
            value = await run_stage(stage, ctx)
            if index == len(pipeline.stages) - 1:
                return Completed(value)
            await checkpoints.complete(index, value, pipeline.stages[index + 1].name)
        except CancelRequestedError:
            return Cancelled(stage.name)
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001 -- whatever a stage raises
            await ctx.caller.landed()
            failure = envelope(error, ctx, limits)
            return await recover(pipeline, ctx, checkpoints, limits, index, failure)
        telemetry.emit(ctx.log, "stage.completed", stage=stage.name)
        ctx.progress()
    message = "a pipeline has at least one stage, and its last one returns"
    raise AssertionError(message)


def restore(
    pipeline: Pipeline, ctx: Context[Any], checkpoints: Checkpoints
) -> PermanentError | None:
    """Put the values of completed stages into the context.

    Return what keeps one of them from being read, if anything; the others are there
    all the same, for the way back.
    """
    unreadable = None
    for stage in pipeline.stages[: stages_done(pipeline, checkpoints)]:
        text = checkpoints.completed[stage.name]
        try:
            ctx.values[stage.name] = values.decode(stage.run, text)
        except PermanentError as error:
            ctx.stage, unreadable = stage.name, error
    return unreadable


def stages_done(pipeline: Pipeline, checkpoints: Checkpoints) -> int:
    """Return the longest run of completed stages from the start.

    What came after a stage that was undone since is done again.
    """
    names = [stage.name for stage in pipeline.stages]
    return next(
        (i for i, name in enumerate(names) if name not in checkpoints.completed),
        len(names),
    )


async def run_stage(stage: Stage, ctx: Context[Any]) -> str:
    """Run one stage and return its value as JSON."""
    run = in_process if ctx.bench is None else ctx.bench.run
    text = await run(stage, ctx)
    ctx.values[stage.name] = values.decode(stage.run, text)
    return text


async def in_process(stage: Stage, ctx: Context[Any], *, undo: bool = False) -> str:
    """Run a stage, or what undoes it, in this process."""
    function = stage.compensate if undo and stage.compensate else stage.run
    async with asyncio.timeout(stage.timeout):
        value = await invoke(function, ctx)
    # Nobody reads what a compensation returns.
    return "null" if undo else values.encode(function, value)


async def invoke(function: Callable[..., Any], ctx: Context[Any]) -> Any:
    """Call a stage function on the loop or, if it is a plain one, beside it."""
    if inspect.iscoroutinefunction(function):
        return await function(ctx)
    return await ctx.caller.to_its_end(asyncio.to_thread(function, ctx))


def envelope(error: BaseException, ctx: Context[Any], limits: Limits) -> ErrorEnvelope:
    """Return the only form in which an error is decided on and stored."""
    now = limits.clock()
    return classify(
        error,
        stage=ctx.stage,
        attempt=ctx.attempt,
        at=iso(now),
        correlation_id=f"{ctx.job}/{ctx.chunk}",
        now=now,
    )


async def recover(
    pipeline: Pipeline,
    ctx: Context[Any],
    checkpoints: Checkpoints,
    limits: Limits,
    index: int,
    failure: ErrorEnvelope,
) -> Outcome:
    """Turn a stage's failure into an outcome; undo first where that is decided."""
    decision = recovery.decide(
        failure,
        attempts_left=limits.max_attempts - ctx.attempt,
        attempt=ctx.attempt,
        pivot=pivot_seen_from(pipeline, index, failure, checkpoints, ctx),
        rng=limits.rng,
    )
    match decision:
        case Again(delay):
            return Parked(failure, delay)
        case Bury(reason):
            return Dead(failure, reason)
        case _:
            await checkpoints.turn_back(failure, ctx.stage)
            return await compensate(pipeline, ctx, checkpoints, failure)


def pivot_seen_from(
    pipeline: Pipeline,
    index: int,
    failure: ErrorEnvelope,
    checkpoints: Checkpoints,
    ctx: Context[Any],
) -> Pivot:
    """Say whether the point of no return is passed, ahead, or nobody can tell.

    A pivot that failed has plainly not happened only if it was refused outright: on
    its first try, in its first claim, with an error that is not transient, before any
    effect of it stood, and not for what it answered.
    """
    if index < pipeline.pivot_index:
        return Pivot.AHEAD
    if index > pipeline.pivot_index:
        return Pivot.BEHIND
    counts = ctx.caller.counts
    tried_before = checkpoints.entered == ctx.stage or counts.retried > 0
    happened = ctx.stage in counts.stages_with_effects or failure.code in AFTERWARDS
    refused = not failure.retryable and not tried_before and not happened
    return Pivot.AHEAD if refused else Pivot.IN_DOUBT


async def compensate(
    pipeline: Pipeline,
    ctx: Context[Any],
    checkpoints: Checkpoints,
    failure: ErrorEnvelope,
) -> Dead | Cancelled:
    """Undo in reverse every stage that was begun, the one in doubt included.

    A compensation that fails does not stop the others: it is recorded, and the dead
    letter says which stages are left standing, those that nothing undoes included.
    """
    ctx.caller.turn_back()
    await ctx.caller.in_flight.over()
    begun = stages_begun(pipeline, failure, checkpoints)
    to_undo = [stage for stage in reversed(begun) if stage.compensate]
    for stage in to_undo:
        if stage.name not in checkpoints.undone:
            ctx.stage = f"undo:{stage.name}:{ctx.caller.epoch}"
            await checkpoints.undo(stage.name, await undo(stage, ctx, failure))
            ctx.progress()
    standing = ctx.caller.ledger.standing()
    failed = {s.name for s in to_undo if checkpoints.undone[s.name] is not None}
    left = failed | {s.name for s in begun if not s.compensate and s.name in standing}
    if left:
        names = tuple(s.name for s in reversed(begun) if s.name in left)
        return Dead(failure, Compensation.FAILED, names)
    came_to = Compensation.DONE if to_undo else Compensation.NOTHING
    if failure.code == CANCELLED:
        return Cancelled(failure.stage, came_to)
    return Dead(failure, came_to)


def stages_begun(
    pipeline: Pipeline, failure: ErrorEnvelope, checkpoints: Checkpoints
) -> list[Stage]:
    """Return the stages up to and with the one that failed, in their order."""
    names = [stage.name for stage in pipeline.stages]
    last = names.index(failure.stage) if failure.stage in names else -1
    completed = [i for i, name in enumerate(names) if name in checkpoints.completed]
    entered = names.index(checkpoints.entered) if checkpoints.entered in names else -1
    return list(pipeline.stages[: max([last, entered, *completed]) + 1])


async def undo(
    stage: Stage, ctx: Context[Any], failure: ErrorEnvelope
) -> ErrorEnvelope | None:
    """Run one compensation; return what it died of."""
    if stage.compensate is None:
        return None
    run = in_process if ctx.bench is None else ctx.bench.run
    try:
        await run(stage, ctx, undo=True)
    except StoreError:
        raise
    except Exception as error:  # noqa: BLE001 -- whatever it raises is its failure
        return classify(
            error,
            stage=ctx.stage,
            attempt=ctx.attempt,
            at=failure.at,
            correlation_id=failure.correlation_id,
        )
    return None
