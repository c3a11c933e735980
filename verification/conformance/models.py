"""The models as a subject: behind clients' methods, on a clock that does not wait."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

from piecework_simulation.aws.dynamodb import DynamoDB
from piecework_simulation.aws.s3 import S3
from piecework_simulation.aws.sqs import SQS
from verification.conformance.subject import Subject, fresh

NOW = 1_700_000_000.0


@dataclass(slots=True)
class Direct:
    """A model behind the methods of a client."""

    model: Any

    def __getattr__(self, operation: str) -> Any:
        async def send(**request: Any) -> Any:
            return self.model.call(operation, request)

        return send


class Model(Subject):
    """The models of the three services, with a clock of their own."""

    def __init__(self) -> None:
        self.time = NOW
        table, bucket = fresh("table"), fresh("bucket")
        self.queues = SQS(self.now, Random(1))
        super().__init__(
            "model",
            Direct(DynamoDB(self.now, tables=[table])),
            LongPolling(self),
            Direct(S3(self.now, buckets=[bucket])),
            table,
            bucket,
        )

    def now(self) -> float:
        return self.time

    async def queue(
        self, *, redrive: tuple[str, int] | None = None, **attributes: str
    ) -> str:
        parts: dict[str, Any] = {
            {
                "VisibilityTimeout": "visibility_s",
                "MessageRetentionPeriod": "retention_s",
            }[name]: float(value)
            for name, value in attributes.items()
        }
        if redrive is not None:
            parts["redrive"] = (redrive[0].rpartition("/")[2], redrive[1])
        return self.queues.create_queue(fresh("queue"), **parts)

    async def pass_time(self, seconds: float) -> None:
        self.time += seconds


@dataclass(slots=True)
class LongPolling:
    """The model of SQS behind a client; a receive that waits moves the clock."""

    subject: Model

    def __getattr__(self, operation: str) -> Any:
        return getattr(Direct(self.subject.queues), operation)

    async def receive_message(self, **request: Any) -> Any:
        queues, subject = self.subject.queues, self.subject
        patience = subject.time + request.get("WaitTimeSeconds", 0)
        while True:
            reply = queues.call("receive_message", request)
            if "Messages" in reply or subject.time >= patience:
                return reply
            arrives = queues.next_at(request["QueueUrl"])
            subject.time = patience if arrives is None else min(arrives, patience)
