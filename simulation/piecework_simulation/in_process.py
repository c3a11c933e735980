"""Run one worker on the models of DynamoDB, SQS and S3, in this process.

Time is real, unless a caller passes a clock.
Nothing is installed. The record ends with the process, unless `state/` keeps it in a
file. The models are those of the simulator, without faults and without latency.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from random import Random
from types import SimpleNamespace
from typing import Any

import structlog
from botocore.exceptions import ClientError

from piecework.aws.endpoint import Endpoint
from piecework.aws.objects import Objects
from piecework.aws.queue import Queue
from piecework.aws.work_queues import WorkQueues
from piecework.cost.attribution import keeps_costs
from piecework.cost.meter import Actor, CostMeter, body_size
from piecework.cost.persistence import Keeper, keeping
from piecework.pipelines import Pipeline
from piecework.runtime import Runtime
from piecework.saga.code_version import code_versions
from piecework.settings import Settings
from piecework.store.completion import Tallies
from piecework.store.costs import Costs
from piecework.store.job_transitions import JobTransitions
from piecework.store.jobs import Jobs
from piecework.store.table import Table
from piecework_simulation.aws.conflicts import IN_TRUE_TIME_S, Conflicts
from piecework_simulation.aws.dynamodb import DynamoDB
from piecework_simulation.aws.s3 import S3, pages
from piecework_simulation.aws.sqs import SQS
from piecework_worker.isolation.pool import Isolation
from piecework_worker.process import serve
from piecework_worker.report import report_until
from piecework_worker.services import open_services, queues_of
from piecework_worker.worker import Worker

#: The backstop of the work queue, as `infra/data.yaml` sets it.
MAX_RECEIVES = 10
#: Seconds for which SQS keeps a message: of the work queue, of the dead-letter queue.
RETENTION_S, DEAD_RETENTION_S = 345_600.0, 1_209_600.0


@dataclass(slots=True)
class InProcessAws:
    """The tables, queues and objects of one deployment, in memory."""

    settings: Settings
    bucket: str = "bucket"
    rng: Random = field(default_factory=Random)
    clock: Callable[[], float] = time.time
    dynamodb: DynamoDB = field(init=False)
    sqs: SQS = field(init=False)
    s3: S3 = field(init=False)
    urls: dict[str, str] = field(init=False)
    #: Replaced at each arrival: an open long poll waits for the present one.
    arrival: asyncio.Event = field(init=False, default_factory=asyncio.Event)
    closed: bool = field(init=False, default=False)
    #: Told of each arrival, too: wakes the polls of other processes.
    others_waiting: Callable[[str], None] = field(init=False, default=lambda _: None)

    def __post_init__(self) -> None:
        """Create the tables, the queues and the bucket."""
        settings = self.settings
        tables = (settings.checkpoints_table, settings.dead_letters_table)
        conflicts = None
        if self.clock is time.time:
            # A virtual clock stands still while a command runs in true time: what its
            # transaction holds would never be free again.
            conflicts = Conflicts(time.monotonic, Random(), IN_TRUE_TIME_S)
        self.dynamodb = DynamoDB(self.clock, tables=tables, conflicts=conflicts)
        self.sqs = SQS(self.clock, self.rng)
        self.sqs.on_arrival = self._wake_polls
        self.s3 = S3(self.clock, buckets=[self.bucket])
        dead = settings.dead_letter_queue
        self.urls = {
            dead: self.sqs.create_queue(dead, retention_s=DEAD_RETENTION_S),
        }
        self.create_queues([""])

    def create_queues(self, queues: Iterable[str]) -> None:
        """Create the queues of pipelines that do not exist yet."""
        settings = self.settings
        for name in map(settings.queue_name, queues):
            if name not in self.urls:
                self.urls[name] = self.sqs.create_queue(
                    name,
                    visibility_s=settings.visibility_s,
                    retention_s=RETENTION_S,
                    redrive=(settings.dead_letter_queue, MAX_RECEIVES),
                )

    def runtime(
        self, actor: Actor = "operator", clock: Callable[[], float] | None = None
    ) -> Runtime:
        """Return a runtime whose clients are the models; its meter counts requests."""
        clock = clock or self.clock
        settings, rng, cost = self.settings, self.rng, CostMeter(actor)
        dynamodb, sqs = self.client(self.dynamodb, cost), self.client(self.sqs, cost)
        table = Table(dynamodb, settings.checkpoints_table, rng)
        default = Queue(sqs, self.urls[settings.work_queue], rng)
        work = WorkQueues(default, settings.queue_name)
        return Runtime(
            settings=settings,
            endpoint=Endpoint("", "in-process", "local"),
            table=table,
            dead_letters=Table(dynamodb, settings.dead_letters_table, rng),
            work=work,
            dead_letter_queue=Queue(sqs, self.urls[settings.dead_letter_queue], rng),
            renewal_table=table,
            renewal_queues=work,
            objects=Objects(self.client(self.s3, cost), self.bucket),
            jobs=Jobs(table, clock),
            transitions=JobTransitions(table, clock, settings.job_retention_days),
            tallies=Tallies(table),
            clock=clock,
            rng=rng,
            cost=cost,
        )

    def client(self, service: DynamoDB | SQS | S3, cost: CostMeter) -> Any:
        """Return a client of a service."""
        return ModelClient(self, service, cost)

    async def receive(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Execute a long poll: wait until a message is visible, or its time is over."""
        url, until = str(request["QueueUrl"]), self.clock()
        until += float(request.get("WaitTimeSeconds", 0))
        while True:
            arrival = self.arrival
            reply = self.sqs.call("receive_message", request)
            left = until - self.clock()
            if reply.get("Messages") or left <= 0 or self.closed:
                return reply
            next_at = self.sqs.next_at(url)
            if next_at is not None:
                left = min(left, max(next_at - self.clock(), 0.0))
            try:
                async with asyncio.timeout(left):
                    await arrival.wait()
            except TimeoutError:
                continue

    def close(self) -> None:
        """End the open polls, for which a stopping worker would wait."""
        self.closed = True
        self._wake_worker()

    def _wake_polls(self, url: str) -> None:
        self._wake_worker()
        self.others_waiting(url)

    def _wake_worker(self) -> None:
        self.arrival.set()
        self.arrival = asyncio.Event()


@dataclass(eq=False)
class ModelClient:
    """A replacement for an aiobotocore client: each method calls a model."""

    aws: InProcessAws
    service: DynamoDB | SQS | S3
    cost: CostMeter

    def __getattr__(self, operation: str) -> Any:
        """Return an operation of the service, as an async method."""
        if operation.startswith("_"):
            raise AttributeError(operation)
        method = partial(self.send, operation)
        setattr(self, operation, method)
        return method

    def get_paginator(self, operation: str) -> Any:
        """Return the pages of a listing."""
        return SimpleNamespace(paginate=partial(pages, partial(self.send, operation)))

    async def send(self, operation: str, **request: Any) -> dict[str, Any]:
        """Execute a request; other tasks run meanwhile, as they would on AWS."""
        await asyncio.sleep(0)
        try:
            if operation == "receive_message":
                reply = await self.aws.receive(request)
            else:
                reply = self.service.call(operation, request)
        except ClientError as error:
            self._count(operation, request, error.response)
            await self._last(operation)
            raise
        await self._last(operation)
        self._count(operation, request, reply)
        return reply

    async def _last(self, operation: str) -> None:
        """Wait until a transaction is over: until then it holds its items."""
        if operation == "transact_write_items":
            await asyncio.sleep(self.aws.dynamodb.took_s)

    def _count(
        self, operation: str, request: Mapping[str, Any], answer: Mapping[str, Any]
    ) -> None:
        """Count a request for the bill of its job, as `piecework.cost.listen` does."""
        service = type(self.service).__name__.lower()
        if service == "dynamodb" and keeps_costs(request):
            return
        params = {**request}
        if "Body" in params:
            params["Body"] = body_size(params["Body"])
        name = "".join(part.capitalize() for part in operation.split("_"))
        self.cost.saw(service, name, params, answer, again=False)


@dataclass(frozen=True, slots=True)
class RunningWorker:
    """A worker in this process, and its task, which ends early only by an error."""

    worker: Worker
    task: asyncio.Task[None]
    end_polls: Callable[[], None]

    def stop(self) -> None:
        """Begin the end of the worker."""
        self.worker.stop.set()
        self.end_polls()


@asynccontextmanager
async def worker_beside(
    aws: InProcessAws, pipelines: Mapping[str, Pipeline], names: Sequence[str]
) -> AsyncIterator[RunningWorker]:
    """Run a worker on the models while the caller's block runs: see `run_worker`.

    The queues of the pipelines are created, if they do not exist.
    """
    aws.closed = False
    aws.create_queues(queues_of(pipelines.values()))
    rt = aws.runtime("worker")
    async with (
        keeping(Keeper(rt.cost, Costs(rt.table))),
        run_worker(rt, pipelines, names, aws.close) as running,
    ):
        yield running


@asynccontextmanager
async def run_worker(
    rt: Runtime,
    pipelines: Mapping[str, Pipeline],
    names: Sequence[str],
    end_polls: Callable[[], None] = lambda: None,
) -> AsyncIterator[RunningWorker]:
    """Run a worker and a reconciler while the caller's block runs.

    `names` are the names that the pipelines were loaded by: the child processes of
    isolated stages load them. Without a name there are no such processes.
    """
    log = structlog.get_logger().bind(worker="run")
    isolation = None
    if names:
        isolation = Isolation(names, "run", rt.settings.stage_memory_mb, log)
    versions = code_versions(pipelines.values(), rt.settings)
    services = open_services(
        rt, "run", pipelines, log, isolation, code_versions=versions
    )
    stop = asyncio.Event()
    worker = Worker(services, stop)
    reports = asyncio.create_task(report_until(worker, stop))
    task = asyncio.create_task(serve(worker, reconcile=True))
    running = RunningWorker(worker, task, end_polls)
    try:
        yield running
    finally:
        running.stop()
        await asyncio.gather(task, reports, return_exceptions=True)
        if isolation is not None:
            await isolation.close()
