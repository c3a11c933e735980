"""Lives of a job that show what a worker does beside its chunks."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from piecework import Escalation, Ladder, Pipeline, Rung, Stage, TransientError
from piecework.domain import keys
from piecework.domain.priority import Priority
from piecework_simulation.engine.network import Exchange
from tests.simulation.life import (
    PIPELINES,
    Item,
    Shop,
    end_workers,
    ends,
    items,
    life,
    lose_messages,
    ordered,
    send,
    settled,
    simple,
    strike,
    work,
)
from tests.unit.orchestrator.simulated import REF, Simulated


async def fail(notice: Escalation) -> None:
    """Fail the hook of a rung while the shop is closed."""
    if Shop.closed:
        raise TransientError(notice.rung, code="tool.ticket.busy")


climbing = Pipeline(
    "climbing",
    payload=Item,
    stages=[Stage(work)],
    ladder=Ladder(rungs=[Rung("ticket", fail), Rung("gone", fail, 1_000)]),
)
PIPELINES.append(climbing)


@life("hooks that fail")
async def failing_hooks(at: Simulated) -> None:
    """Call a hook until it is abandoned; the next one is gone when its time comes."""
    await ends(at, "refused", of=climbing)
    await asyncio.sleep(800.0)
    end_workers(at)
    without = replace(climbing, ladder=None)
    at.fleet.pipelines = {**at.fleet.pipelines, "climbing": without}
    at.fleet.worker(reconcile=True)
    await asyncio.sleep(300.0)


@life("stopped before the next in order", reconcile_s=600, shutdown_grace_s=200)
async def stopped_in_order(at: Simulated) -> None:
    await at.submit(ordered, items("slow", "slow", "", ""))
    await asyncio.sleep(5.0)
    for stop in at.fleet.workers.values():
        stop.set()
    await settled(at)


@life("no answer to messages", max_chunks=1)
async def no_answer_to_messages(at: Simulated) -> None:
    """Receive messages while the tables do not answer: few, because each one waits."""
    end_workers(at)
    await at.submit(simple, items(*[""] * 50))
    at.fleet.worker(reconcile=False)
    at.world.faults.denied.add("dynamodb")
    await unanswered(at, 30.0)


@life("no answer to a backlog", max_chunks=1)
async def no_answer_to_backlog(at: Simulated) -> None:
    """Draw a chunk whose claim is not answered."""
    note = at.world.on_exchange

    def deny(moment: str, exchange: Exchange) -> None:
        note(moment, exchange)
        if moment == "answered" and "ADD next" in str(exchange.request):
            at.world.on_exchange = note
            at.world.faults.denied.add("dynamodb")

    at.world.on_exchange = deny
    job = simple, items(*[""] * 60)
    await at.fleet.submit(REF, *job, priority=Priority.LOW, mortal=False)
    await unanswered(at, 30.0)


async def unanswered(at: Simulated, seconds: float) -> None:
    """Let the tables answer no request for a while; wait for the end of the job."""
    await asyncio.sleep(seconds)
    at.world.faults.denied.discard("dynamodb")
    await settled(at)


@life("damaged job")
async def damaged_job(at: Simulated) -> None:
    end_workers(at)
    await at.submit(simple, items("", ""))
    at.world.dynamodb.call(
        "update_item",
        {
            "TableName": at.world.settings.checkpoints_table,
            "Key": {"pk": {"S": keys.job_pk(REF.tenant, REF.job)}, "sk": {"S": "META"}},
            "UpdateExpression": "SET chunks = :many",
            "ExpressionAttributeValues": {":many": {"S": "many"}},
        },
    )
    at.fleet.worker(reconcile=False)
    await asyncio.sleep(60.0)


@life("killed before a quarantine")
async def killed_at_quarantine(at: Simulated) -> None:
    strike(at, "asked", quarantines)
    send(at, at.world.settings.work_queue, "{")
    await ends(at, "")
    await asyncio.sleep(300.0)


def quarantines(exchange: Exchange) -> bool:
    """Return whether a request writes a dead letter that has no chunk."""
    name, request = exchange.client.process.name, str(exchange.request)
    return name.startswith("worker") and "malformed" in request


@life("a backlog without its pipeline")
async def backlog_without_pipeline(at: Simulated) -> None:
    """Only the backlog tells the worker of the job: no message does."""
    end_workers(at)
    known, at.fleet.pipelines = at.fleet.pipelines, {}
    job = simple, items(*[""] * 60)
    await at.fleet.submit(REF, *job, priority=Priority.LOW, mortal=False)
    lose_messages(at)
    at.fleet.worker(reconcile=False)
    await asyncio.sleep(40.0)
    at.fleet.pipelines = known
    at.fleet.worker(reconcile=True)
    await settled(at)
