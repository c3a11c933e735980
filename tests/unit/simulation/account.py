"""The model's queues in a few words, on a clock that a test moves."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

from piecework_simulation.aws.sqs import SQS


@dataclass(frozen=True, slots=True)
class Got:
    """A message received."""

    body: str
    received: int
    handle: str


class Misfortunes:
    """What goes wrong: each kind as often as a test says, from now on."""

    def __init__(self) -> None:
        self.left: dict[str, int] = {}

    def fires(self, kind: str) -> bool:
        left = self.left.get(kind, 0)
        self.left[kind] = left - 1
        return left > 0


class Account:
    """A work queue and its dead-letter queue: three receives, then there."""

    def __init__(self, seed: int = 0) -> None:
        self.now = 1_000.0
        self.chaos = Misfortunes()
        self.sqs = SQS(lambda: self.now, Random(seed), chaos=self.chaos)
        self.dead = self.sqs.create_queue("dead", retention_s=500.0)
        self.work = self.sqs.create_queue(
            "work", visibility_s=30.0, retention_s=400.0, redrive=("dead", 3)
        )

    def call(self, operation: str, **request: Any) -> dict[str, Any]:
        return self.sqs.call(operation, {"QueueUrl": self.work, **request})

    def send(self, *bodies: str) -> None:
        for body in bodies:
            self.call("send_message", MessageBody=body)

    def receive(self, *, queue: str = "", **more: Any) -> list[Got]:
        reply = self.call(
            "receive_message",
            QueueUrl=queue or self.work,
            MaxNumberOfMessages=10,
            AttributeNames=["ApproximateReceiveCount"],
            **more,
        )
        return [
            Got(
                found["Body"],
                int(found["Attributes"]["ApproximateReceiveCount"]),
                found["ReceiptHandle"],
            )
            for found in reply.get("Messages", [])
        ]

    def bodies(self, *, queue: str = "", **more: Any) -> list[str]:
        return [got.body for got in self.receive(queue=queue, **more)]

    def delete(self, handle: str) -> None:
        self.call("delete_message", ReceiptHandle=handle)

    def hide(self, handle: str, seconds: int) -> None:
        self.call(
            "change_message_visibility",
            ReceiptHandle=handle,
            VisibilityTimeout=seconds,
        )

    def visible_after_each_minute(self, minutes: int) -> list[str]:
        """Return what is handed out when looking once a minute."""
        found = []
        for _ in range(minutes):
            self.now += 60
            found += self.bodies()
        return found
