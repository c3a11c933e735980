"""sqs-workers on SQS, with a job for each unit of work.

The setup follows its README:
- usage: one standard queue, and one processor. A worker receives ten messages, does
  them one after the other, and deletes the ten in one request.
- batch writes: jobs are added in batches of ten.
- backoff: a failed job is visible again at once (`IMMEDIATE_RETURN`).
- The README runs a worker for each process. Here each of `concurrency` threads runs
  one, with a session of its own: so many processes would measure the memory.
The rest are defaults. SQS returns the messages of a dead worker after the visibility
timeout. It keeps no record of a job besides its message, none of a call, and no end of
a whole job. Up to ten messages of each worker are done and not deleted at a kill.
"""

from __future__ import annotations

import threading
import time
from typing import Any

import boto3
import protocol
from sqs_workers import IMMEDIATE_RETURN, SQSEnv, create_standard_queue

#: Not the default: it would run what a message pickles.
JSON = "json"


def opened(config: protocol.Config) -> SQSEnv:
    """Open an environment with a session of its own: boto3's is not for threads."""
    session = boto3.Session()
    words: dict[str, Any] = {
        "endpoint_url": config.endpoint,
        "region_name": config.region,
    }
    return SQSEnv(
        codec=JSON,
        backoff_policy=IMMEDIATE_RETURN,
        sqs_client=session.client("sqs", **words),
        sqs_resource=session.resource("sqs", **words),
    )


def setup(config: protocol.Config) -> None:
    """Make the queue, with its visibility timeout."""
    create_standard_queue(
        opened(config), config.queue, visibility_timeout=config.visibility_s
    )


def enqueue(config: protocol.Config) -> str:
    """Add all jobs in batches of ten."""
    queue = opened(config).queue(config.queue)
    begun = time.monotonic()
    with queue.add_batch():
        for name in config.tasks:
            queue.add_job("perform", name=name)
    return protocol.submitted(len(config.tasks), time.monotonic() - begun)


def work(config: protocol.Config) -> None:
    """Be one process of `concurrency` workers, until a signal stops it."""
    tasks = protocol.Tasks(config)

    def serve() -> None:
        queue = opened(config).queue(config.queue)

        @queue.processor("perform")
        def perform(name: str) -> None:
            tasks.perform(name)

        queue.process_queue()

    threads = [threading.Thread(target=serve) for _ in range(config.concurrency)]
    for each in threads:
        each.start()
    tasks.ledger.ready()
    for each in threads:
        each.join()


def teardown(config: protocol.Config) -> None:
    """Delete the queue."""
    sqs = opened(config).sqs_client
    sqs.delete_queue(QueueUrl=sqs.get_queue_url(QueueName=config.queue)["QueueUrl"])


if __name__ == "__main__":
    protocol.main(setup, enqueue, work, teardown)
