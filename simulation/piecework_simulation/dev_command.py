"""`piecework dev`: AWS and a worker in one process, for the commands of its folder."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import structlog
import typer

from piecework import telemetry
from piecework.aws.endpoint import DEFAULT_REGION
from piecework.domain.job import Job
from piecework.domain.states import JobStatus
from piecework.errors import PieceworkError
from piecework.loading import load_pipelines
from piecework.pipelines import Pipeline
from piecework.runtime import EMBEDDED_ACCOUNT, Runtime
from piecework.settings import Settings, load_settings
from piecework_orchestrator import embedded
from piecework_orchestrator.cli.app import run_alone
from piecework_orchestrator.cli.global_options import CONTEXT, command_class
from piecework_orchestrator.cli.options import Format, MaxChunksOption
from piecework_orchestrator.cli.output import Output
from piecework_orchestrator.cli.run import LOG_LEVEL, report_error, run_async
from piecework_simulation.aws_server.server import serve_aws
from piecework_simulation.in_process import (
    InProcessAws,
    RunningWorker,
    worker_beside,
)
from piecework_simulation.reloading import Project, new_versions
from piecework_simulation.run_command import threads
from piecework_simulation.run_end import show_end
from piecework_worker.lease import InterruptReason
from piecework_worker.stopping import Stop, leave, stop_on_signals
from piecework_worker.worker import SHUTDOWN_MARGIN_S

app = typer.Typer(
    add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None
)

#: Seconds between two reads of the jobs.
POLL_S = 0.3
#: The newest jobs, which are reported.
MAX_JOBS = 20


@app.command(cls=command_class("dev"), context_settings=CONTEXT)
def dev(
    module: Annotated[
        str,
        typer.Argument(help="`package.module`, or `package.module:pipeline`."),
    ],
    max_chunks: MaxChunksOption = None,
) -> None:
    """Run AWS and a worker here; reload changed code.

    The commands that run in this folder use them: submit, results, jobs, dlq. When a
    Python file of the folder changes, the worker starts again with the new code. It
    first waits for the running chunks, at most for PIECEWORK_SHUTDOWN_GRACE_S. Chunks
    keep their checkpoints and answered calls. Ctrl-C ends all, and leaves nothing
    behind.
    """

    async def main(out: Output) -> int:
        if LOG_LEVEL not in os.environ:  # the end of a job tells the errors
            telemetry.configure("critical", stream=out.stderr)
        overrides = {} if max_chunks is None else {"max_chunks": max_chunks}
        settings = load_settings(**overrides)
        with threads(settings):
            await develop(out, settings, module)
        echoed = "\n" if out.stderr.isatty() else ""  # the terminal shows ^C
        out.stderr.write(f"{echoed}stopped; nothing is left\n")
        return 0

    run_async(main, Format.TABLE, before=lambda: load_pipelines([module]), end=leave)


async def develop(out: Output, settings: Settings, name: str) -> None:
    """Serve AWS and run a worker until a signal; start it again with new code."""
    project = Project(Path.cwd())
    latest = Latest(load_pipelines([name]))
    signals = stop_on_signals(
        structlog.get_logger(), settings.shutdown_grace_s + SHUTDOWN_MARGIN_S
    )
    stop = signals.stop
    aws = InProcessAws(settings, settings.bucket(EMBEDDED_ACCOUNT, DEFAULT_REGION))
    key = embedded.new_key()
    async with serve_aws(aws, key) as endpoint:
        with embedded.announce(endpoint, key):
            out.say(
                f"AWS and a worker for {', '.join(latest.pipelines)} run until Ctrl-C"
            )
            next_step = f"next: piecework submit {name} FILE --wait"
            out.say(f"{next_step}  (in another terminal)")
            side = [
                asyncio.create_task(signals.keep_handlers()),
                asyncio.create_task(reload(out, project, name, latest)),
                asyncio.create_task(Reporter(out, aws.runtime()).report_jobs()),
            ]
            try:
                while not stop.is_set():
                    latest.changed.clear()
                    async with worker_beside(aws, latest.pipelines, [name]) as running:
                        events = (stop.wait(), latest.changed.wait())
                        await first_of([running.task, *side], *events)
                        await end_worker(out, running, stop)
                    if latest.changed.is_set() and not stop.is_set():
                        out.say(f"reloaded {name}: {', '.join(latest.pipelines)}")
            finally:
                for task in side:
                    task.cancel()
                await asyncio.gather(*side, return_exceptions=True)


@dataclass(slots=True)
class Latest:
    """The pipelines of the last version that could be loaded."""

    pipelines: dict[str, Pipeline]
    changed: asyncio.Event = field(default_factory=asyncio.Event)


async def first_of(
    tasks: list[asyncio.Task[None]], *events: Coroutine[Any, Any, object]
) -> None:
    """Wait until an event has happened, or raise the error that ended a task."""
    waiting = [asyncio.ensure_future(event) for event in events]
    try:
        await asyncio.wait([*tasks, *waiting], return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in waiting:
            each.cancel()
    for task in tasks:
        if task.done():
            task.result()


async def end_worker(out: Output, running: RunningWorker, stop: Stop) -> None:
    """End a worker: for a reload when its chunks have ended, after Ctrl-C at once."""
    worker = running.worker
    leases = list(worker.services.lease_renewer.leases.values())
    if leases and not stop.is_set():
        what = chunks_text(len(leases))
        out.say(f"reloading: {what} may end first, within {worker.grace_s:g} s")
    if stop.is_set():
        worker.grace_s = 0.0
    running.stop()
    await first_of([running.task], stop.wait())
    worker.grace_s = 0.0  # of a drain that Ctrl-C ended
    await running.task
    cut = sum(lease.reason is InterruptReason.STOPPING for lease in leases)
    if cut:
        then = "" if stop.is_set() else "; answered calls will not be paid again"
        out.say(f"cut {chunks_text(cut)}{then}")


def chunks_text(count: int) -> str:
    """Return a number of running chunks as text."""
    return f"{count} running chunk{'s' * (count != 1)}"


async def reload(out: Output, project: Project, name: str, latest: Latest) -> None:
    """Pass on the pipelines after each change; write why they cannot be loaded."""
    async for found in new_versions(project, name):
        if isinstance(found, PieceworkError):
            report_error(found, out)
            out.say("the worker goes on with the last version that could be loaded")
        else:
            latest.pipelines = found
            latest.changed.set()


@dataclass(slots=True)
class Reporter:
    """Writes when a job begins and how it ends."""

    out: Output
    rt: Runtime
    #: The last reported status and generation of each job.
    known: dict[str, tuple[JobStatus, int]] = field(default_factory=dict)

    async def report_jobs(self) -> None:
        """Report the newest jobs of the tenant until the task is cancelled."""
        while True:
            number = 0
            async for ref in self.rt.jobs.listed(self.rt.settings.tenant):
                job = await self.rt.jobs.read(ref)
                if job is not None and job.status is not JobStatus.SUBMITTING:
                    await self.report(job)
                number += 1
                if number == MAX_JOBS:
                    break
            await asyncio.sleep(POLL_S)

    async def report(self, job: Job) -> None:
        """Report a job if it is new, or ended since the last report."""
        name, state = job.ref.job, (job.status, job.gen)
        before = self.known.get(name)
        self.known[name] = state
        if before is None:
            self.out.say(f"job {name}: {job.chunks} chunks of {job.pipeline}")
        if job.status.ended and before != state:
            await show_end(self.out, self.rt, job, name=f"job {name} ")


if __name__ == "__main__":
    run_alone(app, "piecework dev")
