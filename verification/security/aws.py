"""The simulator's AWS behind the clients' verbs, on the test's own event loop."""

from __future__ import annotations

import time
from functools import partial
from random import Random
from types import SimpleNamespace
from typing import Any

from piecework.aws.endpoint import Endpoint
from piecework.aws.objects import Objects
from piecework.aws.payloads import PayloadRef
from piecework.aws.queue import Queue
from piecework.aws.work_queues import WorkQueues
from piecework.domain import keys
from piecework.domain.moments import iso
from piecework.domain.refs import JobRef
from piecework.runtime import Runtime
from piecework.settings import Settings
from piecework.store.completion import Tallies
from piecework.store.job_transitions import JobTransitions
from piecework.store.jobs import Jobs, new_chunk
from piecework.store.table import Table
from piecework_simulation.aws.dynamodb import DynamoDB
from piecework_simulation.aws.s3 import S3, pages
from piecework_simulation.aws.sqs import SQS

BUCKET = "bucket"


class Client:
    """A client whose service answers at once; `asked` keeps what it was asked."""

    def __init__(self, service: Any) -> None:
        self.service = service
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def __getattr__(self, operation: str) -> Any:
        return partial(self.send, operation)

    async def send(self, operation: str, **request: Any) -> Any:
        body: Any = request.get("Body")
        if hasattr(body, "read"):
            request["Body"] = body.read()
        self.asked.append((operation, request))
        return self.service.call(operation, request)

    def get_paginator(self, operation: str) -> Any:
        return SimpleNamespace(paginate=partial(pages, partial(self.send, operation)))


class Cloud:
    """Tables, queues and a bucket, and a runtime that stands on them."""

    def __init__(self, **settings: Any) -> None:
        self.settings = Settings(**settings)
        names = self.settings
        rng = Random(1)
        tables = (names.checkpoints_table, names.dead_letters_table)
        self.dynamodb = Client(DynamoDB(time.time, tables=tables, rng=rng))
        self.sqs = Client(SQS(time.time, rng))
        self.s3 = Client(S3(time.time, buckets=[BUCKET]))
        dead = self.sqs.service.create_queue(names.dead_letter_queue)
        work = self.sqs.service.create_queue(
            names.work_queue, redrive=(names.dead_letter_queue, 10)
        )
        table = Table(self.dynamodb, names.checkpoints_table, rng)  # type: ignore[arg-type]
        default = Queue(self.sqs, work, rng)  # type: ignore[arg-type]
        queues = WorkQueues(default, names.queue_name)
        self.rt = Runtime(
            settings=names,
            endpoint=Endpoint("http://127.0.0.1:1", "embedded", "nowhere"),
            table=table,
            dead_letters=Table(self.dynamodb, names.dead_letters_table, rng),  # type: ignore[arg-type]
            work=queues,
            dead_letter_queue=Queue(self.sqs, dead, rng),  # type: ignore[arg-type]
            renewal_table=table,
            renewal_queues=queues,
            objects=Objects(self.s3, BUCKET),  # type: ignore[arg-type]
            jobs=Jobs(table, time.time),
            transitions=JobTransitions(table, time.time),
            tallies=Tallies(table),
            clock=time.time,
            rng=rng,
        )

    async def job(self, ref: JobRef, payloads: list[bytes], pipeline: str) -> None:
        """Put a running job on record, with its payloads, and no messages."""
        stage, content = "echo", b"".join(payload + b"\n" for payload in payloads)
        await self.rt.objects.put(keys.pack_key(ref.tenant, ref.job, "pack"), content)
        facts = {"pipeline": pipeline, "first_stage": stage, "chunks": len(payloads)}
        where = {"manifest": "none", "manifest_sha256": "none"}
        now = {"opened_at": iso(time.time()), "sent_at": iso(time.time())}
        await self.rt.jobs.create(ref, facts | where | now | {"status": "RUNNING"})
        offset = 0
        for number, payload in enumerate(payloads):
            place = PayloadRef("pack", offset, len(payload))
            said = {"payload": str(place), "payload_sha256": keys.sha256(payload)}
            chunk = ref.chunk(number)
            item = new_chunk(chunk, 1, said | {"stage": stage})
            put = self.rt.table.item_write("Put", chunk.pk, chunk.sk, item=item)
            await self.rt.table.put(put)
            offset += len(payload) + 1
