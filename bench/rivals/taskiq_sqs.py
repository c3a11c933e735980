"""Taskiq on SQS, with taskiq-aio-sqs.

As the documentation advises: uvloop, ten messages a receive, long polls of 20 s, and
batched sends. The worker acknowledges a message after its work (taskiq's default).
taskiq's own `SimpleRetryMiddleware` sends a failed task again at once. The worker does
not batch what it sends. A batched retry, whose message is already acknowledged, would
be lost with the process. `run_receiver_task` runs the receiver in one process.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

import protocol
import uvloop
from aiobotocore.session import get_session
from taskiq import AsyncTaskiqDecoratedTask, SimpleRetryMiddleware, TaskiqEvents
from taskiq.api import run_receiver_task
from taskiq_aio_sqs import SQSBroker


def setup(config: protocol.Config) -> None:
    """Make the queue: the broker wants to find it."""
    attributes = {"VisibilityTimeout": str(config.visibility_s)}

    async def create() -> None:
        async with opened(config) as sqs:
            await sqs.create_queue(QueueName=config.queue, Attributes=attributes)

    uvloop.run(create())


def enqueue(config: protocol.Config) -> str:
    """Send all tasks; the broker batches them."""
    return uvloop.run(send(config))


def work(config: protocol.Config) -> None:
    """Receive for ever."""
    broker = Broker(config)
    tasks = protocol.Tasks(config)
    register(broker, tasks)
    broker.on_event(TaskiqEvents.WORKER_STARTUP)(lambda _state: tasks.ledger.ready())
    running = run_receiver_task(
        broker, max_async_tasks=config.concurrency, run_startup=True
    )
    uvloop.run(running)


def teardown(config: protocol.Config) -> None:
    """Delete the queue."""

    async def delete() -> None:
        async with opened(config) as sqs:
            found = await sqs.get_queue_url(QueueName=config.queue)
            await sqs.delete_queue(QueueUrl=found["QueueUrl"])

    uvloop.run(delete())


async def send(config: protocol.Config) -> str:
    """Send all tasks, and wait until the last batch is out."""
    tasks = config.tasks
    broker = Broker(config, to_send=len(tasks))
    perform = register(broker, protocol.Tasks(config))
    await broker.startup()
    begun = time.monotonic()
    for task in tasks:
        await perform.kiq(task)
    await broker.all_sent.wait()
    seconds = time.monotonic() - begun
    await broker.shutdown()
    return protocol.submitted(len(tasks), seconds)


class Broker(SQSBroker):
    """The broker; one that is to send batches its messages and counts them.

    Its `shutdown` hangs (2.1.1, Python 3.11) while a batch is still being collected.
    """

    def __init__(self, config: protocol.Config, to_send: int = 0) -> None:
        super().__init__(
            config.queue,
            endpoint_url=config.endpoint,
            region_name=config.region,
            max_number_of_messages=10,
            wait_time_seconds=20,
            visibility_timeout=config.visibility_s,
            enable_batching=to_send > 0,
            batch_timeout=0.1,
        )
        self.to_send = to_send
        self.all_sent = asyncio.Event()
        self.add_middlewares(
            SimpleRetryMiddleware(
                default_retry_count=20,
                default_retry_label=True,
                types_of_exceptions=[protocol.CallFailedError],
            )
        )

    async def _send_batch_to_sqs(self, queue_name: str, batch: list[Any]) -> None:
        await super()._send_batch_to_sqs(queue_name, batch)
        self.to_send -= len(batch)
        if self.to_send <= 0:
            self.all_sent.set()


def register(
    broker: SQSBroker, tasks: protocol.Tasks
) -> AsyncTaskiqDecoratedTask[[str], None]:
    """Return the task as taskiq knows it."""

    @broker.task(task_name="perform")
    async def perform(task: str) -> None:
        await tasks.aperform(task)

    return perform


def opened(config: protocol.Config) -> Any:
    """Return a client, to be entered."""
    return get_session().create_client(
        "sqs", endpoint_url=config.endpoint, region_name=config.region
    )


if __name__ == "__main__":
    protocol.main(setup, enqueue, work, teardown)
