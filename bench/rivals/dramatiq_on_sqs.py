"""Dramatiq on SQS, with dramatiq-sqs.

As the documentation advises: a thread for each task, dramatiq's default middleware, an
acknowledgement after the work. dramatiq's own `Retries` sends a failed task again, at
once in place of 15 s later. The worker's timeout stays at dramatiq's 1 s, the length of
a long poll. It is also the longest pause while ten messages are in progress. Ten is the
limit of dramatiq-sqs for a queue, for any number of threads. dramatiq-sqs has no
batched send and no batched delete. The worker runs in this process (`dramatiq.Worker`),
without the process manager.
"""

from __future__ import annotations

import logging
import signal
import time

import dramatiq
import protocol
from dramatiq.worker import Worker
from dramatiq_sqs import SQSBroker


def setup(config: protocol.Config) -> None:
    """Have the broker declare its queue."""
    broker_of(config).consume(config.queue)


def enqueue(config: protocol.Config) -> str:
    """Send one message for each task."""
    perform = register(broker_of(config), protocol.Tasks(config))
    tasks = config.tasks
    begun = time.monotonic()
    for task in tasks:
        perform.send(task)
    return protocol.submitted(len(tasks), time.monotonic() - begun)


def work(config: protocol.Config) -> None:
    """Run a worker until the process is killed."""
    logging.basicConfig(level=logging.WARNING)
    broker = broker_of(config)
    tasks = protocol.Tasks(config)
    register(broker, tasks)
    Worker(broker, worker_threads=config.concurrency).start()
    tasks.ledger.ready()
    signal.pause()


def teardown(config: protocol.Config) -> None:
    """Delete the queue."""
    broker = broker_of(config)
    broker.sqs.get_queue_by_name(QueueName=config.queue).delete()


def broker_of(config: protocol.Config) -> SQSBroker:
    """Return the broker, which knows the one queue."""
    broker = SQSBroker(
        visibility_timeout=config.visibility_s,
        endpoint_url=config.endpoint,
        region_name=config.region,
    )
    broker.declare_queue(config.queue)
    return broker


def register(broker: SQSBroker, tasks: protocol.Tasks) -> dramatiq.Actor[[str], None]:
    """Return the task as dramatiq knows it."""
    return dramatiq.actor(
        tasks.perform,
        actor_name="perform",
        queue_name=tasks.config.queue,
        broker=broker,
        min_backoff=1,
    )


if __name__ == "__main__":
    protocol.main(setup, enqueue, work, teardown)
