"""Lives of a job in which reconcilers do what was left undone, or is due."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from piecework.domain.budget import Cap
from piecework.domain.priority import Priority
from piecework.jobs.budgeting import set_tenant_budget
from piecework_orchestrator.pause import resume
from piecework_orchestrator.webhooks import Subscription, set_webhook
from piecework_simulation.engine.network import Exchange
from tests.simulation.life import (
    DAY_S,
    SECRET,
    Shop,
    end_workers,
    ends,
    items,
    life,
    settled,
    simple,
    strike,
    works,
)
from tests.unit.orchestrator.simulated import REF, Simulated


@life("messages lost", max_chunks=1)
async def messages_lost(at: Simulated) -> None:
    """Lose the messages of all chunks that no worker has received."""
    work = {"QueueUrl": at.world.urls[at.world.settings.work_queue]}
    await at.submit(simple, items(*["slow"] * 6))
    await asyncio.sleep(5.0)
    while lost := at.world.sqs.call("receive_message", work).get("Messages"):
        receipt = {**work, "ReceiptHandle": lost[0]["ReceiptHandle"]}
        at.world.sqs.call("delete_message", receipt)
    await settled(at)


@life("ended in a pause")
async def ended_in_pause(at: Simulated) -> None:
    await at.submit(works, items("slow"))
    await at.fleet.pause(REF, mortal=False)
    await asyncio.sleep(150.0)
    await at.fleet.resume(REF, mortal=False)
    await settled(at)


@life("commands killed")
async def commands_killed(at: Simulated) -> None:
    """Kill each command before it sends its messages: reconcilers finish it."""

    def sends(exchange: Exchange) -> bool:
        return "Entries" in exchange.request and exchange.client.process.name[:6] in {
            "resume",
            "redriv",
        }

    await at.submit(simple, items("slow", "refused", *["retry"] * 3))
    await at.fleet.pause(REF, mortal=False)
    await asyncio.sleep(150.0)
    strike(at, "asked", sends)
    await at.fleet.resume(REF, mortal=False)
    await settled(at)
    strike(at, "asked", sends)
    await at.fleet.redrive(REF, mortal=False)
    await settled(at)


@life("sample of low priority")
async def sample_of_backlog(at: Simulated) -> None:
    many, low = items(*[""] * 60), Priority.LOW
    await at.fleet.submit(REF, simple, many, priority=low, sample=2, mortal=False)
    await asyncio.sleep(60.0)
    await resume(at.rt, REF, actor="us", reason="it is good")
    await settled(at)


@life("sample that goes on")
async def sample_goes_on(at: Simulated) -> None:
    await at.fleet.submit(REF, simple, items(*[""] * 5), sample=-2, mortal=False)
    await settled(at)


@life("daily budget")
async def daily_budget(at: Simulated) -> None:
    """Pause a job by the budget of its tenant; raise that budget."""
    await set_tenant_budget(at.rt, REF.tenant, Cap(20), actor="us")
    await at.submit(simple, items("", "", "", "steps"))
    await asyncio.sleep(60.0)
    await set_tenant_budget(at.rt, REF.tenant, Cap(10_000), actor="us", reason="more")
    await settled(at)
    await set_tenant_budget(at.rt, REF.tenant, Cap(), actor="us")


@life("expired", job_retention_days=1, reconcile_s=600)
async def expired(at: Simulated) -> None:
    await ends(at, "", "refused", "")
    end_workers(at)
    at.fleet.reconciler()
    await asyncio.sleep(1.2 * DAY_S)
    await at.fleet.discard(REF, mortal=False)
    await asyncio.sleep(4.0 * DAY_S)


@life("watched", max_attempts=5)
async def watched(at: Simulated) -> None:
    """Tell a webhook of a job that is stuck, of a breaker, and of their ends."""
    events = ("job.stuck", "breaker.open", "job.ended", "dead_letters.arrived")
    hook = Subscription(
        "ops", "https://ops.example.com/", SECRET, events=events, after_s=60
    )
    await set_webhook(at.rt, hook, "us")
    await at.submit(simple, items("broken", "broken", "broken", "refused"))
    await asyncio.sleep(400.0)
    Shop.closed = False
    await settled(at)
    await set_webhook(at.rt, replace(hook, events=("job.ended",)), "us")
    await asyncio.sleep(130.0)
