"""A worker's end and a child's end of one line, in one process."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from piecework.context import Context
from piecework.pipeline import Pipeline, Stage
from tests.unit.piecework.fakes import Clause, Log, caller, context
from workers.child import Child as Inside
from workers.isolation.child_calls import ChildCalls
from workers.isolation.line import Line, open_line
from workers.isolation.messages import Ended, Run
from workers.isolation.session import Session


@dataclass
class FakeChild:
    """Stands for the process: killing it cuts its end of the line."""

    line: Line
    inside: Inside
    listening: asyncio.Task[None]
    killed: bool = False

    def kill(self) -> None:
        self.killed = True
        self.inside.line.cut()

    async def death(self) -> str:
        return "was killed by SIGKILL"


@asynccontextmanager
async def child_of(pipeline: Pipeline) -> AsyncIterator[FakeChild]:
    ours, theirs = socket.socketpair()
    line, far = await open_line(ours), await open_line(theirs)
    calls = ChildCalls(far, asyncio.get_running_loop())
    inside = Inside(far, {pipeline.name: pipeline}, Log(), calls)  # type: ignore[arg-type]
    listening = asyncio.create_task(inside.listen())
    yield FakeChild(line, inside, listening)
    far.cut()
    line.cut()
    await listening
    # The process would be gone by now, with all that waits in it.
    for asked in inside.calls.asked.values():
        asked.answer.cancel()
    if inside.task is not None:
        inside.task.cancel()
        await asyncio.wait([inside.task])


def pipeline_of(*functions: Any, **facts: Any) -> Pipeline:
    stages = [Stage(function, isolate=True, **facts) for function in functions]
    return Pipeline(name="review", payload=Clause, stages=stages)


def order(ctx: Context[Any], stage: Stage, **facts: Any) -> Run:
    given: dict[str, Any] = {
        "pipeline": ctx.pipeline.name,
        "stage": stage.name,
        "way": "run",
        "scope": stage.name,
        "tenant": ctx.tenant,
        "job": ctx.job,
        "chunk": ctx.chunk,
        "attempt": ctx.attempt,
        "payload": ctx.payload.model_dump_json(),
        "values": {},
        "memory_mb": 0,
    }
    return Run(**(given | facts))


@dataclass
class Bench:
    """Runs the last stage of a pipeline over the line."""

    child: FakeChild
    ctx: Context[Any]

    def session(self) -> Session:
        return Session(self.child, self.ctx)  # type: ignore[arg-type]

    def order(self, **facts: Any) -> Run:
        return order(self.ctx, self.ctx.pipeline.stages[-1], **facts)

    async def run(self, **facts: Any) -> Ended:
        return await self.session().run(self.order(**facts))


@asynccontextmanager
async def bench(
    *functions: Any, journal: Any = None, **facts: Any
) -> AsyncIterator[Bench]:
    pipeline = pipeline_of(*functions)
    ctx = context(pipeline, caller=caller(journal, **facts))
    ctx.stage = pipeline.stages[-1].name
    async with child_of(pipeline) as child:
        yield Bench(child, ctx)
