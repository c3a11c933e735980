"""A worker's services on the model of AWS, and a chunk whose row a test sets."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

from piecework.aws.queue import Message
from piecework.domain.job import Job
from piecework.domain.refs import ChunkRef, JobRef
from piecework.pipelines import Pipeline
from piecework.settings import Settings
from piecework.store.dead_letters import DeadLetters
from piecework.store.serialization import to_value
from piecework.store.table import Item
from piecework_orchestrator.submit.intake.rows import row_chunks
from piecework_orchestrator.submit.submit import Submission, submit
from piecework_simulation.in_process import InProcessAws
from piecework_worker.executor import execute
from piecework_worker.services import WorkerServices, open_services
from piecework_worker.work_item import MessageAction, WorkItem
from tests.unit.piecework.fakes import Log, Lowest

NOW = 1_800_000_000.0
REF = JobRef("default", "a").chunk(0)


def worker_services(
    settings: Settings | None = None, *pipelines: Pipeline, **parts: Any
) -> WorkerServices:
    """Return the services of a worker; `parts` replace those of its runtime."""
    aws = InProcessAws(settings or Settings(), rng=Lowest())
    rt = replace(aws.runtime("worker", lambda: NOW), **parts)
    log: Any = Log()
    return open_services(rt, "w1", {p.name: p for p in pipelines}, log)


def said_by(services: WorkerServices) -> Log:
    """Return the log of a worker."""
    log: Any = services.log
    return log  # type: ignore[no-any-return]


@dataclass(slots=True)
class Desk:
    """A job of one chunk, its message, and a worker that gets the message."""

    aws: InProcessAws
    services: WorkerServices
    item: WorkItem

    async def set_row(self, ref: ChunkRef | JobRef = REF, **row: Any) -> None:
        """Change the attributes of a chunk, or of the job; None removes one."""
        key = (ref.pk, ref.sk) if isinstance(ref, ChunkRef) else (ref.pk, "META")
        table, names = self.services.rt.table, {f"#{n}": n for n in row}
        kept = {n: to_value(value) for n, value in row.items() if value is not None}
        gone = [f"#{name}" for name in row if name not in kept]
        change = "SET " + ", ".join(f"#{n} = :{n}" for n in kept) if kept else ""
        change += f" REMOVE {', '.join(gone)}" if gone else ""
        values = {f":{name}": value for name, value in kept.items()}
        await table.client.update_item(
            TableName=table.name,
            Key={"pk": {"S": key[0]}, "sk": {"S": key[1]}},
            UpdateExpression=change,
            ExpressionAttributeNames=names,
            **({"ExpressionAttributeValues": values} if values else {}),
        )

    async def reopen(self, gen: int) -> None:
        """Bring the job, its chunk and its message to a generation."""
        await self.set_row(REF.of, gen=gen)
        await self.set_row(gen=gen)
        self.item = replace(self.item, gen=gen)

    async def row(self, ref: ChunkRef = REF, sk: str = "") -> Item:
        """Return a row of the chunk; empty: there is none."""
        table = self.services.rt.table
        return await table.get(ref.pk, sk or ref.sk, any_version=True) or {}

    async def job(self) -> Job:
        """Return the job."""
        found = await self.services.rt.jobs.read(REF.of)
        assert found is not None
        return found

    async def execute(self, item: WorkItem | None = None) -> MessageAction:
        """Execute a work item: that of the chunk, unless another is given."""
        return await execute(item or self.item, await self.job(), self.services)

    @property
    def hidden_s(self) -> int | None:
        """For how many seconds SQS hides the next message; None: there is none."""
        url = self.aws.urls[self.services.rt.settings.work_queue]
        at = self.aws.sqs.next_at(url)
        return None if at is None else max(0, round(at - time.time()))

    async def message_sent(self) -> Message | None:
        """Return the visible message, if there is one."""
        found = await self.services.rt.work.receive(1, of="", wait_s=0, hide_s=30)
        return found[0].message if found else None

    async def letters(self) -> list[Item]:
        """Return the dead letters of the job."""
        rt = self.services.rt
        store = DeadLetters(rt.dead_letters, rt.settings, rt.clock)
        return [row.item async for row in store.of_job(REF.of)]

    def events(self) -> set[str]:
        """Return the events that the worker logged, and their reasons."""
        said = said_by(self.services).said
        return {name for name, _ in said} | {str(f.get("reason")) for _, f in said}


async def desk(pipeline: Pipeline, payload: Any, **settings: Any) -> Desk:
    """Submit a job of one chunk, and receive its message."""
    aws = InProcessAws(Settings(**settings), rng=Lowest())
    rt, log = aws.runtime("worker", lambda: NOW), Log()
    rows = row_chunks([payload], pipeline)
    await submit(rt, Submission(REF.of, pipeline, "test", "me"), rows)
    (delivery,) = await rt.work.receive(1, of="", wait_s=0, hide_s=30)
    item = WorkItem(REF, 1, 1, delivery.receipt, delivery.message_id)
    known: Any = log
    services = open_services(rt, "w1", {pipeline.name: pipeline}, known)
    return Desk(aws, services, item)
