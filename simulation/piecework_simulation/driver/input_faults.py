"""Faults that belong to one input: it fails, kills or blocks whatever runs it.

The fault happens in each attempt, also after the other faults have ended. A stage that
runs in a child harms only the child. Threads and processes are not simulated, so the
effects of the watchdog and of a dead child are drawn here.
"""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import Any

from piecework.context import Context
from piecework.errors import PermanentError, TransientError
from piecework.pipelines import Pipeline
from piecework_simulation.engine.faults import INPUTS
from piecework_simulation.engine.process import PROCESS
from piecework_simulation.engine.world import World
from piecework_simulation.provider import PROVIDER, InputFault
from piecework_worker.isolation.process import blocked_error, killed_error

#: Seconds for which an input blocks the event loop: shorter and longer than a lease.
BLOCKED_S = (5.0, 60.0)

#: The seconds for which the stage may block the child that runs it. If it runs in the
#: worker, it is None.
CHILD: ContextVar[float | None] = ContextVar("CHILD", default=None)


def draw_input_fault(world: World, pipeline: Pipeline) -> InputFault | None:
    """Draw the fault of one input, if it has one."""
    rng = world.rng
    kinds = [kind for kind in INPUTS if world.faults.draws(kind)]
    if not kinds:
        return None
    stage = rng.choice([stage.name for stage in pipeline.stages])
    late = rng.random() < 0.5  # noqa: PLR2004 -- before or after the stage's work
    return InputFault(rng.choice(kinds), stage, late, rng.uniform(*BLOCKED_S))


async def strike(ctx: Context[Any], *, late: bool) -> None:
    """Show the fault of the context's input, if its stage is at that place.

    Raises:
        PermanentError: `tool.input.refused`.
        TransientError: `tool.input.busy`; or the stage's child died.
    """
    provider = PROVIDER.get()
    fault = provider.input_faults.get((ctx.tenant, ctx.job, ctx.chunk))
    if fault is None or (ctx.stage, late) != (fault.stage, fault.late):
        return
    provider.world.faults.fired[fault.kind] += 1
    match fault.kind:
        case "input.permanent":
            message = f"Stage {ctx.stage} refuses this input."
            raise PermanentError(message, code="tool.input.refused")
        case "input.transient":
            message = f"Stage {ctx.stage} does not take this input now."
            raise TransientError(message, code="tool.input.busy")
        case "input.kill":
            await kill(ctx)
        case "input.block":
            await block(ctx, fault.seconds)


async def kill(ctx: Context[Any]) -> None:
    """Kill the process that runs the stage."""
    if CHILD.get() is not None:
        raise killed_error("was killed by SIGKILL", ctx.stage)
    chunk = ctx.tenant, ctx.job, ctx.chunk
    PROVIDER.get().check_harm(chunk, PROCESS.get().name)
    world = PROVIDER.get().world
    world.kill(PROCESS.get())
    await world.loop.create_future()  # never returns: the process is dead


async def block(ctx: Context[Any], seconds: float) -> None:
    """Block the event loop of the process that runs the stage."""
    limit = CHILD.get()
    if limit is not None:
        await asyncio.sleep(min(seconds, limit))
        if seconds >= limit:
            raise blocked_error(limit, ctx.stage)
        return
    chunk = ctx.tenant, ctx.job, ctx.chunk
    PROVIDER.get().check_harm(chunk, PROCESS.get().name)
    world, process = PROVIDER.get().world, PROCESS.get()
    world.note(process, f"blocked for {seconds:.3f} s by chunk {ctx.chunk}", None)
    world.loop.freeze(process, seconds)
    if seconds >= world.settings.loop_blocked_s:
        process.on_blocked(ctx.pipeline, ctx.stage)
    await asyncio.sleep(0.0)  # the process continues once it is thawed
