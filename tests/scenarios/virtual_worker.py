"""A worker in virtual time that is killed and stopped as a process is."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from piecework.loading import load_pipelines
from piecework.settings import load_settings
from piecework_simulation.in_process import InProcessAws
from piecework_worker.__main__ import make_parser
from piecework_worker.process import parse_queue, serve
from piecework_worker.report import report_until
from piecework_worker.services import open_services, queues_of
from piecework_worker.worker import Worker
from tests.virtual_time import VirtualProcess


@dataclass(frozen=True)
class VirtualWorker:
    """A worker, and the tasks of its process."""

    name: str
    worker: Worker
    process: VirtualProcess
    task: asyncio.Task[None]

    async def kill(self) -> None:
        """End it between two callbacks: nothing of it runs any more."""
        self.process.kill()

    async def stop(self) -> int:
        """Stop it as SIGTERM does; return its exit code."""
        self.worker.stop.set()
        await self.task
        return 0

    async def bury(self) -> None:
        """End what is left of it, after the test."""
        self.process.bury()
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


async def run(worker: Worker, *, reconcile: bool) -> None:
    """Run a worker until its stop; it reports that it lives."""
    reports = asyncio.create_task(report_until(worker, worker.stop))
    try:
        await serve(worker, reconcile=reconcile)
    finally:
        reports.cancel()
        await asyncio.gather(reports, return_exceptions=True)


def start_worker(
    aws: InProcessAws, name: str, words: Sequence[str], log: Any
) -> VirtualWorker:
    """Run a worker with the arguments of its command, and today's environment."""
    asked = make_parser().parse_args(words)
    overrides = {} if asked.max_chunks is None else {"max_chunks": asked.max_chunks}
    rt = replace(aws.runtime("worker"), settings=load_settings(**overrides))
    pipelines = load_pipelines(asked.pipelines)
    queues = [parse_queue(queue) for queue in asked.queue]
    services = open_services(
        rt, name, pipelines, log, None, queues or queues_of(pipelines.values())
    )
    worker, process = Worker(services, asyncio.Event()), VirtualProcess()
    task = process.start(run(worker, reconcile=asked.reconcile))
    return VirtualWorker(name, worker, process, task)
