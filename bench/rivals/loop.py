"""The boto3 loop that a good engineer writes by hand, as AWS advises.

It has long polls of 20 s for ten messages, one thread that receives, and a thread for
each task. At most ten messages wait in memory. All threads share one client, with a
connection for each. A thread deletes a message after its work, or shows it at once
after a failure. A heartbeat hides the message of a long task. The loop sends in batches
of ten. With the option `deletes=batch` it also deletes in batches of ten, as AWS
advises to save cost. It sends ten times fewer deletes, and repeats more tasks after a
kill.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import boto3
import protocol
from botocore.config import Config as Botocore
from botocore.exceptions import ClientError

BATCH = 10
SENDERS = 8
LINGER_S = 0.05
log = logging.getLogger("loop")


def setup(config: protocol.Config) -> None:
    """Make the queue, with its visibility timeout and long polls."""
    attributes = {
        "VisibilityTimeout": str(config.visibility_s),
        "ReceiveMessageWaitTimeSeconds": "20",
    }
    opened("sqs", config).create_queue(QueueName=config.queue, Attributes=attributes)


def enqueue(config: protocol.Config) -> str:
    """Send all tasks in batches of ten, from a few threads."""
    sqs = opened("sqs", config)
    url = sqs.get_queue_url(QueueName=config.queue)["QueueUrl"]
    tasks = config.tasks

    def send(first: int) -> None:
        batch = enumerate(tasks[first : first + BATCH])
        entries = [{"Id": str(number), "MessageBody": task} for number, task in batch]
        refuse(sqs.send_message_batch(QueueUrl=url, Entries=entries))

    begun = time.monotonic()
    with ThreadPoolExecutor(SENDERS) as threads:
        list(threads.map(send, range(0, len(tasks), BATCH)))
    return protocol.submitted(len(tasks), time.monotonic() - begun)


def work(config: protocol.Config) -> None:
    """Receive for ever; a failed message becomes visible again at once."""
    tasks = protocol.Tasks(config)
    Loop(config, tasks.perform, lambda _error: 0).run(tasks.ledger)


def teardown(config: protocol.Config) -> None:
    """Delete the queue."""
    sqs = opened("sqs", config)
    sqs.delete_queue(QueueUrl=sqs.get_queue_url(QueueName=config.queue)["QueueUrl"])


class Loop:
    """One receiver, and the threads that it feeds."""

    def __init__(
        self,
        config: protocol.Config,
        perform: Callable[[str], object],
        pause: Callable[[Exception], int],
    ) -> None:
        self.width = config.concurrency
        self.visibility_s = config.visibility_s
        self.sqs = opened("sqs", config)
        self.url = self.sqs.get_queue_url(QueueName=config.queue)["QueueUrl"]
        self.perform = perform
        self.pause = pause
        self.inbox: queue.Queue[dict[str, str]] = queue.Queue(BATCH)
        self.outbox: queue.Queue[str] = queue.Queue()
        self.held: dict[str, float] = {}
        self.beating = threading.Lock()
        batched = config.options.get("deletes") == "batch"
        self.delete = self.outbox.put if batched else self.delete_now

    def run(self, ledger: protocol.Ledger) -> None:
        """Receive until the process is killed."""
        for body in [self.serve] * self.width + [
            self.delete_in_batches,
            self.extend_visibility,
        ]:
            threading.Thread(target=body, daemon=True).start()
        ledger.ready()
        while True:
            found = self.sqs.receive_message(
                QueueUrl=self.url, MaxNumberOfMessages=BATCH, WaitTimeSeconds=20
            )
            for message in found.get("Messages", []):
                with self.beating:
                    self.held[message["ReceiptHandle"]] = time.monotonic()
                self.inbox.put(message)

    def serve(self) -> None:
        """Do one task after the other."""
        while True:
            message = self.inbox.get()
            receipt = message["ReceiptHandle"]
            try:
                self.perform(message["Body"])
            except Exception as error:  # the loop continues after any task error
                log.exception("task %s failed", message["Body"])
                self.stop_extending(receipt)
                self.ask(
                    self.sqs.change_message_visibility,
                    ReceiptHandle=receipt,
                    VisibilityTimeout=self.pause(error),
                )
            else:
                self.stop_extending(receipt)
                self.delete(receipt)

    def stop_extending(self, receipt: str) -> None:
        """Stop the heartbeat of a message: its visibility is not extended again."""
        with self.beating:
            self.held.pop(receipt, None)

    def extend_visibility(self) -> None:
        """Extend the visibility of messages that are in progress for a while."""
        while True:
            time.sleep(self.visibility_s / 5)
            old = time.monotonic() - self.visibility_s / 5
            with self.beating:
                late = [each for each, since in self.held.items() if since < old]
                for first in range(0, len(late), BATCH):
                    self.ask(
                        self.sqs.change_message_visibility_batch,
                        Entries=entries(
                            late[first : first + BATCH],
                            VisibilityTimeout=self.visibility_s,
                        ),
                    )

    def delete_now(self, receipt: str) -> None:
        """Delete a message by itself."""
        self.ask(self.sqs.delete_message, ReceiptHandle=receipt)

    def delete_in_batches(self) -> None:
        """Delete processed messages, ten at a time or after a moment."""
        while True:
            receipts = [self.outbox.get()]
            with suppress(queue.Empty):
                while len(receipts) < BATCH:
                    receipts.append(self.outbox.get(timeout=LINGER_S))
            self.ask(self.sqs.delete_message_batch, Entries=entries(receipts))

    def ask(self, operation: Callable[..., dict[str, Any]], **words: Any) -> None:
        """Send a request to the queue; if it fails, the message returns by itself."""
        try:
            refuse(operation(QueueUrl=self.url, **words))
        except (ClientError, RuntimeError):
            log.exception("it comes back")


def entries(receipts: list[str], **words: Any) -> list[dict[str, Any]]:
    """Return the entries of a batch."""
    return [
        {"Id": str(number), "ReceiptHandle": receipt, **words}
        for number, receipt in enumerate(receipts)
    ]


def opened(service: str, config: protocol.Config) -> Any:
    """Return a client that all threads may share."""
    return boto3.client(
        service,
        endpoint_url=config.endpoint,
        region_name=config.region,
        config=Botocore(max_pool_connections=config.concurrency + SENDERS),
    )


def refuse(answer: dict[str, Any]) -> None:
    """Fail when a batch was taken only in part."""
    if answer.get("Failed"):
        raise RuntimeError(answer["Failed"])


if __name__ == "__main__":
    protocol.main(setup, enqueue, work, teardown)
