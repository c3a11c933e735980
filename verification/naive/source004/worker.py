"""The worker of source 004: receive, claim, work through the stages, complete.

Tier two is the queue's: the worker leaves a message alone that it cannot handle. It
comes back after five minutes, and is in the dead-letter queue after three deliveries.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from verification.naive.review import ANALYSTS, comment, document, model, score
from verification.naive.source004.records import Records
from verification.naive.source004.tier_one import call

#: "hangs past 5 minutes": the queue's visibility timeout, and nothing extends it.
VISIBILITY_S = 300.0
MOST_RECEIVES = 3
POLL_S = 20
#: Silent in the source: chunks in progress per worker; the same number as Piecework's.
SLOTS = 4
OUTAGE_S = 1.0


@dataclass(slots=True)
class Worker:
    """One worker process.

    Attributes:
        failed: The failures left to tier two.
        loser_deletes: The reading of "the other ... moves on". In every framework,
            a handler that returns without an error has its message deleted. The
            other reading leaves the message.
    """

    name: str
    records: Records
    sqs: Any
    s3: Any
    url: str
    bucket: str
    failed: Callable[[Exception], None]
    loser_deletes: bool = True
    in_progress: set[asyncio.Task[None]] = field(default_factory=set)

    async def run(self) -> None:
        """Poll for ever."""
        while True:
            if len(self.in_progress) >= SLOTS:
                await asyncio.wait(self.in_progress, return_when="FIRST_COMPLETED")
            try:
                reply = await self.sqs.receive_message(
                    QueueUrl=self.url,
                    MaxNumberOfMessages=SLOTS - len(self.in_progress),
                    WaitTimeSeconds=POLL_S,
                )
            except (ClientError, BotoCoreError):
                await asyncio.sleep(OUTAGE_S)
                continue
            for message in reply.get("Messages", []):
                task = asyncio.create_task(self.contain(message))
                self.in_progress.add(task)
                task.add_done_callback(self.in_progress.discard)

    async def contain(self, message: Any) -> None:
        """Leave a message whose handling failed to tier two."""
        try:
            await self.handle(message)
        except Exception as error:  # noqa: BLE001 -- any failure counts
            self.failed(error)

    async def handle(self, message: Any) -> None:
        """Claim the chunk and process it; move on if another worker owns it."""
        asked = json.loads(message["Body"])
        job, chunk = asked["job_id"], asked["chunk"]
        claimed = await self.records.claim(job, chunk, self.name)
        if claimed is not None:
            await self.process(job, chunk, json.loads(claimed["payload"]["S"])["n"])
        elif not self.loser_deletes:
            return
        await self.sqs.delete_message(
            QueueUrl=self.url, ReceiptHandle=message["ReceiptHandle"]
        )

    async def process(self, job: str, chunk: int, n: int) -> None:
        """Run the stages; each first reads the job's status."""
        found: list[Any] = []
        stages: list[Callable[[str, int], Awaitable[Any]]]
        stages = [self.classify, self.analyse, self.deliver]
        for number, stage in enumerate(stages, 1):
            if await self.records.cancelled(job):
                said = f"cancelled-at-stage-{number}"
                await self.records.checkpoint(job, chunk, number, self.name, said)
                return
            await self.records.checkpoint(job, chunk, number, self.name, "started")
            found.append(await stage(f"{job}/{chunk}", n))
        content = json.dumps(found).encode()
        name = f"results/{job}/{chunk}.json"
        await self.s3.put_object(Bucket=self.bucket, Key=name, Body=content)
        await self.records.complete(job, chunk, self.name)
        await self.records.count(job)

    async def classify(self, chunk: str, n: int) -> Any:
        """Classify the clause."""
        return await call(model, score, "kind", n, identity=f"{chunk}/kind")

    async def analyse(self, chunk: str, n: int) -> Any:
        """Call the analysts concurrently."""
        names = [f"analyst-{i}" for i in range(ANALYSTS)]
        asked = (call(model, score, a, n, identity=f"{chunk}/{a}") for a in names)
        return await asyncio.gather(*asked)

    async def deliver(self, chunk: str, n: int) -> Any:
        """Write the findings into the document."""
        return await call(document, comment, n, identity=f"{chunk}/comment")
