"""Both ends of a channel, the worker's and the child's, in one process."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from piecework.context import Context
from piecework.pipelines import Pipeline, Stage
from piecework_worker.isolation.child import Child as Inside
from piecework_worker.isolation.child_calls import ChildCalls
from piecework_worker.isolation.messages import Run, StageResult
from piecework_worker.isolation.process import Channel, open_channel
from piecework_worker.isolation.session import Session
from tests.unit.piecework.fakes import Clause, Log, caller, context


@dataclass
class FakeChild:
    """Replaces the process: killing it closes its end of the channel."""

    channel: Channel
    inside: Inside
    listening: asyncio.Task[None]
    killed: bool = False

    def kill(self) -> None:
        self.killed = True
        self.inside.channel.close()

    async def describe_exit(self) -> str:
        return "was killed by SIGKILL"


@asynccontextmanager
async def child_of(pipeline: Pipeline) -> AsyncIterator[FakeChild]:
    ours, theirs = socket.socketpair()
    channel, far = await open_channel(ours), await open_channel(theirs)
    calls = ChildCalls(far, asyncio.get_running_loop())
    inside = Inside(far, {pipeline.name: pipeline}, Log(), calls)  # type: ignore[arg-type]
    listening = asyncio.create_task(inside.listen())
    yield FakeChild(channel, inside, listening)
    far.close()
    channel.close()
    await listening
    # The process would be gone by now, with all that waits in it.
    for pending in inside.calls.pending.values():
        pending.answer.cancel()
    if inside.task is not None:
        inside.task.cancel()
        await asyncio.wait([inside.task])


def pipeline_of(*functions: Any, **facts: Any) -> Pipeline:
    stages = [Stage(function, isolate=True, **facts) for function in functions]
    return Pipeline(name="review", payload=Clause, stages=stages)


def request(ctx: Context[Any], stage: Stage, **facts: Any) -> Run:
    given: dict[str, Any] = {
        "pipeline": ctx.pipeline,
        "stage": stage.name,
        "variant": "run",
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
    """Runs the last stage of a pipeline over the channel."""

    child: FakeChild
    ctx: Context[Any]
    last: Stage

    def session(self) -> Session:
        return Session(self.child, self.ctx)  # type: ignore[arg-type]

    def request(self, **facts: Any) -> Run:
        return request(self.ctx, self.last, **facts)

    async def run(self, **facts: Any) -> StageResult:
        return await self.session().run(self.request(**facts))


@asynccontextmanager
async def bench(
    *functions: Any, journal: Any = None, **facts: Any
) -> AsyncIterator[Bench]:
    pipeline = pipeline_of(*functions)
    ctx = context(pipeline, caller=caller(journal, **facts))
    ctx.stage = pipeline.stages[-1].name
    async with child_of(pipeline) as child:
        yield Bench(child, ctx, pipeline.stages[-1])
