"""Lives of a job whose workers die, freeze, are refused or get other messages."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from piecework import Ladder, Pipeline, Stage
from piecework.aws.queue import Message
from piecework_orchestrator.operate.cancel import cancel
from piecework_simulation.engine.network import Exchange
from tests.simulation.life import (
    PIPELINES,
    Item,
    end_workers,
    ends,
    items,
    killed_at,
    laddered,
    life,
    ordered,
    paying,
    send,
    settled,
    simple,
    strike,
    work,
    works,
)
from tests.unit.orchestrator.simulated import REF, Simulated

killed_at("killed before the join", "'sk': {'S': 'JOIN'}}, 'UpdateE", "")
killed_at("killed before the certificate", "/certificate/", "", "refused")
killed_at("killed before the end is told", "NOTIFICATION#0001#end", "")


@life("killed before the next in order", reconcile_s=600)
async def killed_in_order(at: Simulated) -> None:
    def settles(exchange: Exchange) -> bool:
        request = str(exchange.request)
        return ":to" in request and "SUCCEEDED" in request

    await at.submit(ordered, items("slow", "", "", ""))
    await asyncio.sleep(5.0)
    strike(at, "applied", settles)
    await settled(at)


@life("refused by the table")
async def refused_by_table(at: Simulated) -> None:
    await at.submit(simple, items("slow", "steps", "slow"))
    for service, start_s, end_s in (("sqs", 10, 40), ("dynamodb", 45, 35)):
        await asyncio.sleep(start_s)
        at.world.faults.denied.add(service)
        await asyncio.sleep(end_s)
        at.world.faults.denied.discard(service)
    await settled(at)


@life("resumed while chunks are given back")
async def resumed_early(at: Simulated) -> None:
    def writes_a_chunk(exchange: Exchange) -> bool:
        is_chunk = "CHUNK" in str(exchange.request.get("Key"))
        return exchange.operation == "update_item" and is_chunk

    await at.submit(simple, items("steps"))
    await asyncio.sleep(5.0)
    await at.fleet.pause(REF, mortal=False)
    strike(at, "applied", writes_a_chunk, freeze_s=3.0)
    await asyncio.sleep(2.5)
    await at.fleet.resume(REF, mortal=False)
    await settled(at)


@life("taken over", max_attempts=3)
async def taken_over(at: Simulated) -> None:
    await at.submit(simple, items("slow", "slow", "slow"))
    await asyncio.sleep(5.0)
    at.world.kill(next(iter(at.fleet.workers)))
    await settled(at)


@life("stopped worker", max_attempts=3)
async def stopped(at: Simulated) -> None:
    await at.submit(simple, items("slow", "slow", "slow"))
    await asyncio.sleep(5.0)
    at.fleet.stop_worker()
    await settled(at)


@life("claimed over", max_attempts=3, reconcile_s=600)
async def claimed_over(at: Simulated) -> None:
    await at.submit(simple, items("slow", "slow"))
    await asyncio.sleep(5.0)
    at.world.kill(next(iter(at.fleet.workers)))
    await settled(at)


@life("frozen worker", max_attempts=3)
async def frozen(at: Simulated) -> None:
    await at.submit(works, items("slow", "", "slow"))
    await asyncio.sleep(5.0)
    at.world.loop.freeze(next(iter(at.fleet.workers)), 200.0)
    await settled(at)


@life("other messages")
async def other_messages(at: Simulated) -> None:
    """Let messages arrive that no worker can read, or that no chunk needs."""
    names = at.world.settings
    await at.submit(simple, items("slow", ""))
    await asyncio.sleep(5.0)
    known, unknown = (Message.about(REF.chunk(n), 1) for n in (1, 7))
    later = Message.about(REF.chunk(1), 2)
    for body in ("{", "{}", known, unknown, later):
        send(at, names.work_queue, body)
        send(at, names.dead_letter_queue, body)
    await settled(at)
    await asyncio.sleep(300.0)


@life("a worker without the pipeline")
async def without_pipeline(at: Simulated) -> None:
    end_workers(at)
    known, at.fleet.pipelines = at.fleet.pipelines, {}
    at.fleet.worker(reconcile=True)
    await at.submit(simple, items("", ""))
    await asyncio.sleep(40.0)
    at.fleet.pipelines = known
    at.fleet.worker(reconcile=True)
    await settled(at)


@life("paused for a moment")
async def paused_shortly(at: Simulated) -> None:
    await at.submit(simple, items("steps", "steps"))
    for _ in range(8):
        await asyncio.sleep(1.3)
        await at.fleet.pause(REF, mortal=False)
        await asyncio.sleep(2.1)
        await at.fleet.resume(REF, mortal=False)
    await settled(at)


@life("in the dead-letter queue", max_attempts=3)
async def in_dead_letter_queue(at: Simulated) -> None:
    await at.submit(simple, items("slow", "slow"))
    await asyncio.sleep(5.0)
    for chunk in range(2):
        message = Message.about(REF.chunk(chunk), 1)
        send(at, at.world.settings.dead_letter_queue, message)
    await settled(at)


@life("submit cut off")
async def cut_off(at: Simulated) -> None:
    strike(at, "asked", lambda exchange: "Entries" in exchange.request)
    await at.fleet.submit(REF, simple, items("", "", ""), mortal=False)
    await settled(at)


@life("a pipeline got a ladder after the submit")
async def ladder_later(at: Simulated) -> None:
    """Let the join fail, too, in a job that tolerates the failure of a chunk."""
    hows = ["refused", *[""] * 5]
    await ends(at, *hows, of=replace(laddered, ladder=None))


without_rungs = Pipeline(
    "without-rungs", payload=Item, stages=[Stage(work)], ladder=Ladder()
)
PIPELINES.append(without_rungs)


@life("a pipeline lost its rungs after the submit")
async def rungs_gone(at: Simulated) -> None:
    await ends(at, "refused", of=replace(without_rungs, ladder=laddered.ladder))


@life("compensated before its pivot was tried")
async def compensated_before_its_pivot(at: Simulated) -> None:
    """Pause it twice at its pivot first."""
    await at.submit(paying, items("late", ""))
    for is_last in (False, True):
        await asyncio.sleep(5.0)
        await at.fleet.pause(REF, mortal=False)
        await asyncio.sleep(90.0)
        if not is_last:
            await at.fleet.resume(REF, mortal=False)
    await cancel(at.rt, REF, actor="us", reason="enough", compensate=True)
    await settled(at)
