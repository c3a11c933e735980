"""The child processes of one worker: each runs one stage after another until it dies.

They run isolated stages, and the stages of suspect chunks.

A start takes some tenths of a second, so an idle child is kept. There are never more
children than isolated stages that run at once.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import structlog
from pydantic import BaseModel

from piecework import telemetry
from piecework.context import Context
from piecework.domain import values
from piecework.domain.payload import write_payload
from piecework.errors import (
    WORKER_OUTAGES,
    RemoteError,
    StoreError,
    WorkerExhaustedError,
)
from piecework.errors.codes import ErrorClass
from piecework.pipelines import RUN, Stage
from piecework_worker.isolation.messages import Ready, Run, StageResult
from piecework_worker.isolation.process import Child, Place, start
from piecework_worker.isolation.session import Session

#: Suspects that run at once. Each child needs the memory of a Python process, and the
#: pipeline did not ask for it.
SUSPECTS_AT_ONCE = 4
#: Children that start at once: each start takes a processor that lease renewal needs.
STARTS_AT_ONCE = 2

OUT_OF_MEMORY = "runtime.stage.out_of_memory"


@dataclass(slots=True)
class Isolation:
    """Runs stages in child processes.

    Attributes:
        names: The names that the pipelines are loaded by, as on the command line.
        memory_mb: Default memory limit of a stage in megabytes; 0: no limit.
        blocked_s: Seconds for which the stage of a suspect may block its event loop.
        place: Where each child starts. A stage may change the worker's directory or
            environment, and a child must load the pipelines all the same.
    """

    names: Sequence[str]
    worker: str
    memory_mb: int
    log: structlog.stdlib.BoundLogger
    blocked_s: float = math.inf
    local_clock: Callable[[], float] = time.time
    place: Place = field(default_factory=Place.current)
    idle: list[Child] = field(default_factory=list)
    draining: set[asyncio.Task[None]] = field(default_factory=set)
    suspects: asyncio.Semaphore = field(
        default_factory=lambda: asyncio.Semaphore(SUSPECTS_AT_ONCE)
    )
    starts: asyncio.Semaphore = field(
        default_factory=lambda: asyncio.Semaphore(STARTS_AT_ONCE)
    )

    async def run_suspect(
        self,
        stage: Stage,
        ctx: Context[Any],
        variant: str = RUN,
        *,
        waiting: Callable[[], AbstractContextManager[None]],
        fresh: bool = False,
    ) -> str:
        """Run a stage that may kill or block its process; else as `run`.

        It waits for its turn inside `waiting`. `fresh`: in a child that has run no
        stage, so that what it lacks was used up by itself.

        Raises:
            RemoteError: The error that the stage raised.
            TransientError: `runtime.stage.killed`: the child died;
                `runtime.stage.blocked_loop`: its event loop was blocked for too long.
        """
        with waiting():
            await self.suspects.acquire()
        try:
            return await self.run(stage, ctx, variant, self.blocked_s, fresh=fresh)
        finally:
            self.suspects.release()

    async def run(
        self,
        stage: Stage,
        ctx: Context[Any],
        variant: str = RUN,
        blocked_s: float = math.inf,
        *,
        fresh: bool = False,
    ) -> str:
        """Run a stage, or its compensation, in a child; return its value as JSON.

        If the run is cancelled, the child is dead before this returns, unless an effect
        in
        flight is still drained.

        Raises:
            RemoteError: The error that the stage raised.
            TransientError: `runtime.stage.killed`: the child died.
            WorkerExhaustedError: No child could be started, or the stages that ran in
                it before may have used up what the stage lacked.
        """
        child, ended = await self.acquire_child(stage, fresh=fresh), None
        ctx.progress()  # the start does not belong to the stage
        session = Session(child, ctx, blocked_s)
        try:
            request = self.request(stage, ctx, variant)
            async with asyncio.timeout(stage.timeout):
                ended = await session.run(request)
        except BaseException as error:
            reason, pid = str(error) or type(error).__name__, child.process.pid
            telemetry.emit(
                self.log, "child.ended", pid=pid, stage=stage.name, reason=reason
            )
            raise
        finally:
            await self.release_child(session, ended)
        failure, shared = ended.failure, child.runs > 0
        child.runs += 1
        if failure is not None and shared and failure.code in WORKER_OUTAGES:
            message = f"Stage {stage.name!r}: {failure.message}"
            raise WorkerExhaustedError(message, code=failure.code)
        if ended.outage and ended.failure is not None:
            raise StoreError(ended.failure.message, code=ended.failure.code)
        if ended.failure is not None:
            raise RemoteError(ended.failure)
        return ended.value

    async def acquire_child(self, stage: Stage, *, fresh: bool = False) -> Child:
        """Return an idle child, or start one.

        One that becomes idle while others start is as good as a new one.
        """
        if not fresh and (child := await self._take_idle()):
            return child
        loop = asyncio.get_running_loop()
        began_at = loop.time()
        async with self.starts:
            if not fresh and (child := await self._take_idle()):
                return child
            child = await self.start(stage)
        took = round((loop.time() - began_at) * 1000)
        pid = child.process.pid
        telemetry.emit(self.log, "child.started", pid=pid, duration_ms=took)
        return child

    async def _take_idle(self) -> Child | None:
        while self.idle:
            child = self.idle.pop()
            if child.alive:
                return child
            await child.end()
        return None

    async def start(self, stage: Stage) -> Child:
        """Start a child and wait until it has loaded its pipelines.

        Raises:
            WorkerExhaustedError: `runtime.worker.no_child`. No stage has begun, so no
                chunk is the cause.
        """
        try:
            child = await start(self.names, self.worker, self.place)
        except (OSError, RuntimeError) as error:
            reason = f"{type(error).__name__}: {error}"
            raise no_child(reason, stage.name) from error
        try:
            if not isinstance(await child.channel.receive(), Ready):
                raise no_child(f"it {await child.describe_exit()}", stage.name)
        except BaseException:
            await child.end()
            raise
        return child

    async def release_child(self, session: Session, ended: StageResult | None) -> None:
        """Keep a child for the next stage, or end it.

        A child beyond its memory limit keeps its memory, and a state error may leave
        anything
        behind: both are ended.
        """
        if session.attempts:
            landing = asyncio.create_task(self.drain_in_flight(session))
            self.draining.add(landing)
            landing.add_done_callback(self.draining.discard)
            return
        session.close()
        if ended is None or must_terminate(ended):
            await session.child.end()
        else:
            self.idle.append(session.child)

    async def drain_in_flight(self, session: Session) -> None:
        """Wait for the effects that the Caller drains, then end the child."""
        try:
            await session.attempts.wait_until_idle()
        finally:
            session.close()
            await session.child.end()

    def request(self, stage: Stage, ctx: Context[Any], variant: str) -> Run:
        """Return the message that starts a stage, with all that its context offers."""
        payload: BaseModel = ctx.payload
        own = stage.memory_mb
        return Run(
            pipeline=ctx.pipeline,
            stage=stage.name,
            variant=variant,
            scope=ctx.stage,
            tenant=ctx.tenant,
            job=ctx.job,
            chunk=ctx.chunk,
            attempt=ctx.attempt,
            # A field that was never set does not count in the keys of calls.
            payload=write_payload(payload, by_alias=False, exclude_unset=True),
            values={
                name: values.encode(function, ctx.values[name], exclude_unset=True)
                for function, name in ctx.stages.items()
                if name in ctx.values
            },
            memory_mb=self.memory_mb if own is None else own,
            failure=ctx.failure,
            effects=list(ctx.effects),
            clock_offset_s=ctx.caller.clock() - self.local_clock(),
            record_calls=ctx.caller.attempts.recorder.keeps,
        )

    async def close(self) -> None:
        """End the children; no stage runs in them any more."""
        for landing in self.draining:
            landing.cancel()
        await asyncio.gather(*self.draining, return_exceptions=True)
        while self.idle:
            await self.idle.pop().end()


def no_child(reason: str, stage: str) -> WorkerExhaustedError:
    """Return the error of a worker that could not start a child process."""
    message = f"No process could be started for stage {stage!r}: {reason}."
    return WorkerExhaustedError(message, code="runtime.worker.no_child")


def must_terminate(ended: StageResult) -> bool:
    """Return whether a stage's result shows that its child must not run another."""
    failure = ended.failure
    lost = failure is not None and failure.error_class is ErrorClass.STATE
    short = failure is not None and failure.code in {OUT_OF_MEMORY, *WORKER_OUTAGES}
    return ended.memory_exceeded or lost or short
