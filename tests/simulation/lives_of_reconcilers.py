"""Lives of a job in which reconcilers do what was left undone, or is due."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from itertools import chain

from piecework.domain import keys
from piecework.domain.budget import Cap
from piecework.domain.moments import iso
from piecework.domain.priority import Priority
from piecework.domain.schema import SCHEMA
from piecework.jobs.budgeting import set_tenant_budget
from piecework.jobs.fan_in import Certificate
from piecework.jobs.sampling import draw_sample, sample_chunks
from piecework.runtime import Runtime
from piecework.store.deletions import expiry_mark
from piecework.store.paid import paid_by
from piecework_orchestrator.operate.approvals import AnswerRequest
from piecework_orchestrator.operate.approvals import answer as reply
from piecework_orchestrator.operate.cancel import cancel
from piecework_orchestrator.operate.pause import resume
from piecework_orchestrator.operate.webhooks import Subscription, set_webhook
from piecework_simulation.engine.network import Exchange
from tests.simulation.life import (
    DAY_S,
    SECRET,
    Shop,
    charging,
    end_workers,
    ends,
    items,
    laddered,
    life,
    lose_messages,
    ordered,
    paying,
    settled,
    simple,
    strike,
    works,
)
from tests.unit.orchestrator.simulated import REF, Simulated


@life("messages lost", max_chunks=1)
async def messages_lost(at: Simulated) -> None:
    await at.submit(simple, items(*["slow"] * 6))
    await asyncio.sleep(5.0)
    lose_messages(at)
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
    job = await at.rt.jobs.read(REF)
    assert job is not None
    chunks = await sample_chunks(at.rt, job)
    assert job.sample == {chunk.ref.chunk for chunk in chunks}
    await resume(at.rt, REF, actor="us", reason="it is good")
    await settled(at)
    drawn = (draw_sample(2, 1, at.world.rng) for _ in range(20))
    assert {0, 1} == set(chain(*drawn))


@life("sample that goes on")
async def sample_goes_on(at: Simulated) -> None:
    await at.fleet.submit(REF, simple, items(*[""] * 5), sample=-2, mortal=False)
    await settled(at)


@life("daily budget")
async def daily_budget(at: Simulated) -> None:
    """Pause a job by the budget of its tenant; raise its own budget, then that one."""
    await set_tenant_budget(at.rt, REF.tenant, Cap(20), actor="us")
    hows, cap = ["", "", "", "steps"], Cap(10_000)
    await at.fleet.submit(REF, simple, items(*hows), budget=cap, mortal=False)
    await asyncio.sleep(60.0)
    await at.fleet.raise_budget(REF, 10, mortal=False)
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


def settles(exchange: Exchange) -> bool:
    """Return whether a request records the success of a chunk."""
    request = str(exchange.request)
    return ":to" in request and "SUCCEEDED" in request


@life("skipped in order")
async def skipped(at: Simulated) -> None:
    await at.submit(ordered, items("refused", "slow", "", ""))
    await asyncio.sleep(10.0)
    await at.fleet.discard(REF, mortal=False)
    await settled(at)


@life("stopped in two groups")
async def stopped_in_two_groups(at: Simulated) -> None:
    hows = ["refused", *[""] * keys.PARTITION_SIZE]
    await at.submit(ordered, items(*hows))
    await settled(at)


@life("deadline before the join", reconcile_s=10)
async def deadline_before_join(at: Simulated) -> None:
    """Let a reconciler without workers see the deadline of a job that has ended."""
    end_workers(at)
    at.fleet.reconciler()
    at.fleet.worker(reconcile=False)
    strike(at, "applied", settles)
    await ends(at, "", of=works, deadline=at.rt.clock() + 5.0)


@life("killed after the deadline", reconcile_s=10)
async def killed_after_deadline(at: Simulated) -> None:
    at_time = at.rt.clock() + 30.0
    await at.fleet.submit(REF, paying, items("goes on"), at_time, mortal=False)
    await asyncio.sleep(40.0)
    strike(at, "applied", settles)
    await settled(at)


@life("a deadline that stops the last chunk")
async def deadline_stops_last(at: Simulated) -> None:
    await ends(at, "goes on", "slow", of=paying, deadline=at.rt.clock() + 30.0)


@life("resume killed")
async def resume_killed(at: Simulated) -> None:
    await at.submit(simple, items("steps", "steps"))
    await asyncio.sleep(5.0)
    await at.fleet.pause(REF, mortal=False)
    await asyncio.sleep(60.0)
    strike(at, "asked", lambda exchange: "Entries" in exchange.request)
    await at.fleet.resume(REF, mortal=False)
    await settled(at)


@life("answered before the reminder")
async def answered(at: Simulated) -> None:
    await at.submit(simple, items("ask", "ask"))
    await asyncio.sleep(60.0)
    request = AnswerRequest({"approved": True}, "us", "it is good")
    await reply(at.rt, REF.chunk(0), request)
    await asyncio.sleep(1_500.0)
    await reply(at.rt, REF.chunk(1), request)
    await settled(at)


@life("retried in a paused pipeline")
async def retried_in_pause(at: Simulated) -> None:
    await ends(at, "", "", of=charging)
    await at.fleet.pause_pipeline(REF, mortal=False)
    await at.fleet.redrive(REF, mortal=False)
    await asyncio.sleep(30.0)
    job = await at.rt.jobs.read(REF)
    assert job is not None
    assert job.join_usage.total("paid")["calls"] == 1
    assert (await paid_by(at.rt.table, job)).usage.total("paid")["calls"] == 3
    Shop.closed = False
    await at.fleet.resume_pipeline(REF, mortal=False)
    await settled(at)


@life("stopped before most chunks have started", max_chunks=1, reconcile_s=600)
async def stopped_early(at: Simulated) -> None:
    await ends(at, *["refused"] * 4, *["slow"] * 8)


@life("discarded on the ladder")
async def off_the_ladder(at: Simulated) -> None:
    await at.submit(laddered, items("refused"))
    await at.ended()
    await at.fleet.discard(REF, mortal=False)
    await asyncio.sleep(300.0)


@life("kept for ever", job_retention_days=1, reconcile_s=600)
async def kept_for_ever(at: Simulated) -> None:
    """Switch the retention off after a job has ended; list another one in vain."""
    await ends(at, "")
    unknown = replace(REF, job="unknown")
    mark = expiry_mark(at.rt.table, unknown, iso(at.rt.clock()))
    await at.rt.table.transact([mark])
    end_workers(at)
    at.world.settings = replace(at.world.settings, job_retention_days=0)
    at.fleet.reconciler()
    await asyncio.sleep(1.2 * DAY_S)


def sets_budget(exchange: Exchange) -> bool:
    """Return whether a command is about to set a budget."""
    is_command = exchange.client.process.name.startswith("budget")
    return is_command and exchange.operation == "update_item"


@life("killed before a budget is raised")
async def killed_at_budget(at: Simulated) -> None:
    hows, cap = ["", "", ""], Cap(10)
    await at.fleet.submit(REF, simple, items(*hows), budget=cap, mortal=False)
    await asyncio.sleep(60.0)
    strike(at, "asked", sets_budget)
    await at.fleet.raise_budget(REF, 10, mortal=False)
    strike(at, "asked", sets_budget)

    async def tenant(rt: Runtime) -> None:
        await set_tenant_budget(rt, REF.tenant, Cap(20), actor="us")

    await at.fleet.command("budget", REF, tenant, mortal=False)
    await asyncio.sleep(30.0)


@life("two jobs in a pause of their pipeline", reconcile_s=600)
async def two_in_pause(at: Simulated) -> None:
    await at.submit(simple, items("steps"))
    other = replace(REF, job="b")
    await at.fleet.submit(other, simple, items("steps"), mortal=False)
    await at.fleet.pause_pipeline(REF, mortal=False)
    await asyncio.sleep(20.0)
    await at.fleet.resume_pipeline(REF, mortal=False)
    await settled(at)


@life("chunks of a newer version")
async def newer_chunks(at: Simulated) -> None:
    """Resume a job of which another version has written chunks."""

    def write(version: int) -> None:
        for n in range(2):
            pk, sk = ({"S": key} for key in (REF.chunk(n).pk, REF.chunk(n).sk))
            at.world.dynamodb.call(
                "update_item",
                {
                    "TableName": at.world.settings.checkpoints_table,
                    "Key": {"pk": pk, "sk": sk},
                    "UpdateExpression": "SET v = :v",
                    "ExpressionAttributeValues": {":v": {"N": str(version)}},
                },
            )

    await at.submit(simple, items("steps", "steps", "steps"))
    await asyncio.sleep(5.0)
    await at.fleet.pause(REF, mortal=False)
    await asyncio.sleep(20.0)
    write(99)
    await at.fleet.resume(REF, mortal=False)
    await asyncio.sleep(20.0)
    write(SCHEMA)
    await settled(at)


@life("alarm of a pipeline", dead_letter_alarm=2)
async def alarm_of_pipeline(at: Simulated) -> None:
    events = ("dead_letters.arrived",)
    hook = Subscription("ops", "https://ops.example.com/", SECRET, events=events)
    await set_webhook(at.rt, replace(hook, pipeline="simple"), "us")
    await ends(at, "refused", "refused")


@life("at work again", reconcile_s=5, reconcile_read_units=0.0015)
async def at_work_again(at: Simulated) -> None:
    """Let a job go on after the last pass over it: then it is not told as stuck."""
    hook = Subscription(
        "ops", "https://ops.example.com/", SECRET, events=("job.stuck",), after_s=120
    )
    await set_webhook(at.rt, hook, "us")
    end_workers(at)
    at.fleet.reconciler()
    await at.submit(simple, items("slow", "slow"))
    await asyncio.sleep(40.0)
    at.fleet.worker(reconcile=False)
    await settled(at)


@life("cancelled after a part of the submit")
async def cancelled_in_part(at: Simulated) -> None:
    """Let the cancel create the chunks that the submit has not written."""
    last = keys.chunk_sk(109)
    strike(at, "asked", lambda exchange: last in str(exchange.request))
    await at.fleet.submit(REF, works, items(*[""] * 110), mortal=False)
    await cancel(at.rt, REF, actor="us", reason="enough")
    stored = await at.rt.objects.get((await at.ended()).certificate)
    certificate = Certificate.model_validate_json(stored)
    assert list(range(110)) == [each.chunk for each in certificate.missing]
