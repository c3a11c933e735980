"""Notice from a thread that a stage blocks the event loop of the worker.

While the loop is blocked, the worker renews no lease, so other workers take over all of
its chunks. The log must name the stage, because every later message comes from the
other workers. A stage that blocked the loop once runs in a child process from then on.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import traceback
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import Context as Variables
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import structlog

from piecework import telemetry
from piecework.context import Context
from piecework.pipelines import Stage

#: Parts of the limit in which the watchdog compares the loop's beats. It counts parts
#: without a beat, not time: a frozen process has no beats, and blocks nothing.
PARTS = 10
#: Frames of the stack that the log shows, the innermost ones.
FRAMES = 12


@dataclass(frozen=True, slots=True)
class StageAtWork:
    """The stage that a task runs."""

    job: str
    chunk: int
    pipeline: str
    stage: str


AT_WORK: ContextVar[StageAtWork | None] = ContextVar("stage_at_work", default=None)


@dataclass(slots=True)
class BlockedLoop:
    """Which stages have blocked the loop of this worker, as pipeline and stage."""

    stages: set[tuple[str, str]] = field(default_factory=set)

    @contextmanager
    def watch(self, stage: Stage, ctx: Context[Any]) -> Iterator[None]:
        """Run a stage inside, so that the watchdog can name it."""
        at_work = StageAtWork(ctx.job, ctx.chunk, ctx.pipeline, stage.name)
        token = AT_WORK.set(at_work)
        try:
            yield
        finally:
            AT_WORK.reset(token)


@dataclass(slots=True)
class LoopWatchdog:
    """Compares the beats of a loop with the time, in a thread of its own.

    Attributes:
        limit_s: Seconds without a beat after which the loop counts as blocked.
        beats: Rises while the loop runs.
    """

    blocked_loop: BlockedLoop
    limit_s: float
    log: structlog.stdlib.BoundLogger
    loop_thread: int = field(default_factory=threading.get_ident)
    beats: int = 0
    ended: threading.Event = field(default_factory=threading.Event)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Watch the running loop while the caller's block runs."""
        beating = asyncio.create_task(self.beat())
        thread = threading.Thread(target=self.watch, name="loop-watchdog", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self.ended.set()
            beating.cancel()

    async def beat(self) -> None:
        """Beat once in each part of the limit, until cancelled."""
        while True:
            self.beats += 1
            await asyncio.sleep(self.limit_s / PARTS)

    def watch(self) -> None:
        """Report each block of the loop once, until the worker ends."""
        seen, silent = -1, 0
        while not self.ended.wait(self.limit_s / PARTS):
            silent = silent + 1 if self.beats == seen else 0
            seen = self.beats
            if silent == PARTS:
                self.report()

    def report(self) -> None:
        """Log the block with the stack of the loop's thread; remember the stage."""
        frame = sys._current_frames().get(self.loop_thread)  # noqa: SLF001 -- documented
        at_work = find_stage(frame)
        facts: dict[str, Any] = {}
        if at_work is not None:
            self.blocked_loop.stages.add((at_work.pipeline, at_work.stage))
            facts = {
                "job": at_work.job,
                "chunk": at_work.chunk,
                "pipeline": at_work.pipeline,
                "stage": at_work.stage,
            }
        telemetry.emit(
            self.log,
            "worker.loop_blocked",
            seconds=self.limit_s,
            stack=stack_of(frame),
            **facts,
        )


def find_stage(frame: FrameType | None) -> StageAtWork | None:
    """Return the stage that runs in a thread of a loop, or None.

    A stage may start tasks and callbacks, which have its context variables. Only the
    loop's own frame knows the context that it runs.
    """
    while frame is not None:
        handle = frame.f_locals.get("self")
        if isinstance(handle, asyncio.Handle):
            variables: Variables | None = getattr(handle, "_context", None)
            return variables.get(AT_WORK) if variables is not None else None
        frame = frame.f_back
    return None


def stack_of(frame: FrameType | None) -> list[str]:
    """Return the innermost frames as file, line and function, without locals."""
    if frame is None:
        return []
    frames = [
        f"{where.f_code.co_filename}:{line} in {where.f_code.co_name}"
        for where, line in traceback.walk_stack(frame)
    ]
    return frames[:FRAMES]
