"""A job whose pipeline has a notify hook, in the model's table and in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from types import SimpleNamespace
from typing import Any

from piecework.domain import keys
from piecework.domain.notification import Notification
from piecework.domain.refs import JobRef
from piecework.domain.states import JobStatus
from piecework.errors import TransientError
from piecework.pipelines import Pipeline, Stage
from piecework.settings import Settings
from piecework.store.jobs import Jobs, active_mark
from piecework.store.notifications import notification_put
from piecework.store.table import Item, Table
from piecework_simulation.aws.dynamodb import DynamoDB
from piecework_worker.notifier import notify_job
from piecework_worker.work_item import MessageAction, WorkItem
from tests.unit.piecework.fakes import Clause, Highest, Log
from tests.unit.workers.virtual_leases import time

REF = JobRef("acme", "job")
#: After both, another worker takes over from one that died in its hook.
LEASE_S, SKEW_S = 60.0, 5.0


async def sleeper(_: Any) -> None:
    """Do nothing: a pipeline must have a stage."""


class Client:
    """Asks the model, and keeps which operations it was asked for."""

    def __init__(self, dynamodb: DynamoDB) -> None:
        self.dynamodb = dynamodb
        self.asked: list[str] = []

    def __getattr__(self, operation: str) -> Callable[..., Awaitable[Any]]:
        async def ask(**request: Any) -> Any:
            await asyncio.sleep(0)
            self.asked.append(operation)
            return self.dynamodb.call(operation, request)

        return ask


class Notified:
    """A job, its hook, and a worker that has the hook's pipeline.

    Attributes:
        trouble: What the hook does once it has heard; nothing: it returns.
        heard: What the hook was told.
        hidden: After how many seconds its message is to show again, each time.
    """

    def __init__(self, *, hook: bool = True) -> None:
        self.trouble: Callable[[], Awaitable[None]] | None = None
        self.heard: list[Notification] = []
        self.hidden: list[float] = []
        self.log = Log()
        self.client = Client(DynamoDB(time, tables=["table"]))
        self.table = Table(self.client, "table", Random(1))  # type: ignore[arg-type]
        self.jobs = Jobs(self.table, time)
        pipeline = Pipeline(
            name="review",
            payload=Clause,
            stages=[Stage(sleeper)],
            notify=self.hear if hook else None,
        )
        rt = SimpleNamespace(
            jobs=self.jobs,
            table=self.table,
            clock=time,
            rng=Highest(),
            work=self,
            settings=Settings(lease_s=LEASE_S, clock_skew_s=SKEW_S),
        )
        self.rt, self.pipelines = rt, {"review": pipeline}

    async def hear(self, notice: Notification) -> None:
        """Be the hook."""
        self.heard.append(notice)
        if self.trouble is not None:
            await self.trouble()

    async def hide(self, receipts: list[str], seconds: float) -> None:
        """Be the queue."""
        assert ["receipt"] == receipts
        self.hidden.append(seconds)

    async def becomes(self, status: JobStatus, event: str = "", gen: int = 1) -> None:
        """Set the job's status and create its notification."""
        facts = {"status": status, "gen": gen, "chunks": 2, "pipeline": "review"}
        item = {**facts, "has_notify_hook": True}
        meta = self.table.item_write("Put", REF.pk, keys.META_SK, item=item)
        await self.table.transact([meta, active_mark(self.table, REF, "Put")])
        if event:
            job = await self.jobs.read(REF)
            assert job is not None
            await self.table.transact(
                notification_put(self.table, job, event, time(), facts)
            )

    async def notify_job(self) -> MessageAction | None:
        """Process a work item of the join, by a message."""
        turn = WorkItem(REF.chunk(keys.JOIN_CHUNK), 1, 1, "receipt")
        rt: Any = self.rt
        return await notify_job(turn, rt, self.pipelines, self.log)

    async def notice(self) -> Item:
        """Return the job's one notification."""
        (row,) = [
            row async for row in self.table.query(REF.pk, keys.NOTIFICATION_PREFIX)
        ]
        return row

    async def listed(self) -> bool:
        """Return whether reconcilers still find the job."""
        return [REF] == [ref async for ref in self.jobs.active()]

    def events(self) -> list[str]:
        """Return the notifications that the hook received, in order."""
        return [notice.event for notice in self.heard]


async def not_now() -> None:
    """Fail as a receiver does that is out of order."""
    raise TransientError("not now", code="tool.stock.busy")
