"""The child process of isolated stages: its worker starts it, and it ends with it.

serve = ready -> (run a stage -> send its result), repeated
"""

from __future__ import annotations

import asyncio
import ctypes
import errno
import faulthandler
import os
import signal
import socket
import sys
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import structlog

from piecework import telemetry
from piecework.calls.caller import Caller
from piecework.context import Context
from piecework.domain import values
from piecework.errors import PieceworkError, StoreError, TransientError
from piecework.errors.classify import classify
from piecework.loading import load_pipelines
from piecework.pipelines import Pipeline, variants
from piecework.saga.stage import end_value, invoke
from piecework.settings import load_settings
from piecework_worker.isolation.child_calls import ChildCalls
from piecework_worker.isolation.messages import (
    Alive,
    Attempt,
    CallResult,
    CancelAttempt,
    CancelStage,
    Ready,
    Run,
    StageResult,
)
from piecework_worker.isolation.process import (
    MEGABYTE,
    SIZE,
    Channel,
    memory_limit,
    memory_used,
    open_channel,
)
from piecework_worker.process_tuning import (
    OURS,
    ignore_signals_in_forks,
    run_to_end,
)

#: Seconds between two messages that say that the event loop runs.
ALIVE_S = 0.5


#: From <linux/prctl.h>: request a signal when the parent's thread ends.
PR_SET_PDEATHSIG = 1
#: Between 0 and 1000: how early the kernel kills this process when memory runs out.
OOM_SCORE = "500"


def main() -> None:
    """Serve the worker that started this process."""
    _, _, end, parent, worker, *names = sys.argv
    die_with_parent(int(parent))
    # The worker decides when to stop. A signal to all of its processes reaches it, too.
    for number in OURS:
        signal.signal(number, lambda *_: None)
    ignore_signals_in_forks()
    faulthandler.enable()
    telemetry.tolerate_output()
    telemetry.configure(os.environ.get("PIECEWORK_LOG_LEVEL", "info"))
    telemetry.guard_process()
    try:
        pipelines = load_pipelines(names)
    except PieceworkError as error:
        sys.stderr.write(f"{error.code}: {error.message}\n{error.next_step}\n")
        raise SystemExit(error.exit_code) from error
    log = structlog.get_logger().bind(worker=worker)
    with asyncio.Runner() as runner:
        # One for the stage, and one for each call of a plain client.
        threads = ThreadPoolExecutor(1 + load_settings().max_calls_in_flight)
        runner.get_loop().set_default_executor(threads)
        run_to_end(runner, serve(socket.socket(fileno=int(end)), pipelines, log))


def die_with_parent(parent: int) -> None:
    """End this process when the worker ends, even if a stage hangs."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # noqa: TID251 -- libc
        with suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text(OOM_SCORE)
    if os.getppid() != parent:
        os._exit(1)


async def serve(
    end: socket.socket,
    pipelines: Mapping[str, Pipeline],
    log: structlog.stdlib.BoundLogger,
) -> None:
    """Run stages until the channel is closed."""
    end.set_inheritable(False)
    telemetry.guard_loop(asyncio.get_running_loop())
    channel = await open_channel(end)
    # The thread of plain functions takes address space that no stage should pay for.
    await asyncio.to_thread(lambda: None)
    child = Child(
        channel, pipelines, log, ChildCalls(channel, asyncio.get_running_loop())
    )
    channel.send(Ready())
    await child.listen()
    os._exit(0)


@dataclass(slots=True)
class Child:
    """Runs the stages in the child, one at a time.

    Attributes:
        leftover_bytes: Address space in bytes that the runs of each stage did not free.
    """

    channel: Channel
    pipelines: Mapping[str, Pipeline]
    log: structlog.stdlib.BoundLogger
    calls: ChildCalls
    task: asyncio.Task[None] | None = None
    leftover_bytes: Counter[tuple[str, str]] = field(default_factory=Counter)

    async def listen(self) -> None:
        """Handle the worker's messages until the channel is closed."""
        while (message := await self.channel.receive()) is not None:
            match message:
                case Run():
                    self.start(message)
                case Attempt():
                    self.calls.start_attempt(message)
                case CancelAttempt():
                    self.calls.cancel_attempt(message.number)
                case CancelStage() if self.task is not None:
                    self.task.cancel()
                case CallResult():
                    self.calls.resolve_call(message)

    def start(self, request: Run) -> None:
        """Start a stage."""
        loop = asyncio.get_running_loop()
        self.calls = ChildCalls(self.channel, loop, stage=request.scope)
        self.calls.clock_offset_s = request.clock_offset_s
        self.calls.keeps = request.record_calls
        self.task = asyncio.create_task(self.run(request, self.calls))

    async def run(self, request: Run, calls: ChildCalls) -> None:
        """Run a stage and send its result."""
        had = memory_used(SIZE)
        alive = asyncio.create_task(self.report_alive())
        try:
            with memory_limit(request.memory_mb):
                value = await self.run_stage(request, calls)
            result = StageResult(value)
        except BaseException as error:  # noqa: BLE001 -- whatever a stage raises
            result = failure_result(error, request)
        finally:
            alive.cancel()
        calls.stage_ended = True
        self.channel.send(
            replace(
                result,
                memory_exceeded=self.exceeds_memory(request, memory_used(SIZE) - had),
            )
        )

    async def report_alive(self) -> None:
        """Tell the worker that the event loop runs, until cancelled."""
        while True:
            self.channel.send(Alive())
            await asyncio.sleep(ALIVE_S)

    def exceeds_memory(self, request: Run, more: int) -> bool:
        """Add the memory that a run did not free; return whether the total is too much.

        Each run has its own limit; otherwise a run would pay for what earlier runs
        left.
        """
        stage = request.pipeline, request.stage
        self.leftover_bytes[stage] += more
        return 0 < request.memory_mb * MEGABYTE < self.leftover_bytes[stage]

    async def run_stage(self, request: Run, calls: ChildCalls) -> str:
        """Run one variant of a stage, or its compensation; return its value as JSON."""
        pipeline = self.pipelines[request.pipeline]
        stage = next(s for s in pipeline.stages if s.name == request.stage)
        ctx = self.build_context(request, pipeline, calls)
        value = await invoke(variants(stage)[request.variant], ctx)
        return end_value(stage, request.variant, value, ctx)

    def build_context(
        self, request: Run, pipeline: Pipeline, calls: ChildCalls
    ) -> Context[Any]:
        """Return the stage's context, which looks the same as in the worker."""
        given = request.payload
        stages = {stage.name: stage.run for stage in pipeline.stages}
        return Context(
            payload=pipeline.payload.model_validate_json(
                given, by_alias=False, by_name=True
            ),
            pipeline=pipeline.name,
            stages=pipeline.names,
            tenant=request.tenant,
            job=request.job,
            chunk=request.chunk,
            attempt=request.attempt,
            caller=cast("Caller", calls),
            log=self.log.bind(job=request.job, chunk=request.chunk),
            stage=request.scope,
            failure=request.failure,
            effects=request.effects,
            values={
                name: values.decode(stages[name], text)
                for name, text in request.values.items()
            },
        )


def failure_result(error: BaseException, request: Run) -> StageResult:
    """Return the result of a failed stage."""
    outage = isinstance(error, StoreError)
    memory_exceeded = isinstance(error, OSError) and error.errno == errno.ENOMEM
    if memory_exceeded or isinstance(error, MemoryError):
        allowed = f"{request.memory_mb} MB" if request.memory_mb else "there is"
        message = f"Stage {request.stage!r} needed more memory than {allowed}."
        error = TransientError(message, code="runtime.stage.out_of_memory")
    return StageResult(failure=classify(error), outage=outage)
