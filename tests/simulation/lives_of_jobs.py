"""Lives of a job that people and its own chunks decide."""

from __future__ import annotations

import asyncio

from piecework.aws.queue import Message
from piecework.domain import keys
from piecework.domain.budget import Cap
from piecework.domain.priority import Priority
from piecework.jobs.pipeline_pauses import is_paused_by_pipeline
from piecework_orchestrator.operate.cancel import cancel
from piecework_orchestrator.operate.pause import resume
from tests.simulation.life import (
    Shop,
    calls,
    ends,
    items,
    laddered,
    life,
    ordered,
    paying,
    send,
    settled,
    simple,
    strike,
    works,
)
from tests.unit.orchestrator.simulated import REF, Simulated

calls("done", "", "", "", of=works)
calls("a group and one more", *[""] * (keys.PARTITION_SIZE + 1))
calls("tolerated", *["refused", *[""] * 5], of=works)
calls("tolerated no more", *["refused", *["slow"] * 3, "refused", "refused"])
calls("retried", "retry", "retry", max_attempts=3)
calls("exhausted", "retry", "retry", max_attempts=1)
calls("fallback", "spare", "spare")
calls("limited", *["limited"] * 8)
calls("equal calls", "shared", "shared")
calls("ladder", "retry", "refused", of=laddered, max_attempts=2)
calls("effects", "effect", "refused", of=works)
calls("asleep", "sleep", "sleep", "")


@life("breaker", max_attempts=3)
async def breaker(at: Simulated) -> None:
    await at.submit(simple, items("broken", "broken", "broken"))
    await asyncio.sleep(60.0)
    Shop.closed = False
    await settled(at)


@life("ordered")
async def dead_in_order(at: Simulated) -> None:
    await at.submit(ordered, items("refused", "slow", "", "", ""))
    await asyncio.sleep(30.0)
    send(at, at.world.settings.work_queue, Message.about(REF.chunk(0), 1))
    await asyncio.sleep(30.0)
    await at.fleet.discard(REF, mortal=False)
    await settled(at)


@life("paused")
async def paused(at: Simulated) -> None:
    await at.submit(simple, items("slow", "steps", "retry"))
    await asyncio.sleep(2.0)
    await at.fleet.pause(REF, mortal=False)
    await asyncio.sleep(150.0)
    await at.fleet.resume(REF, mortal=False)
    await settled(at)


@life("pipeline paused")
async def pipeline_paused(at: Simulated) -> None:
    await at.submit(simple, items("slow", "slow"))
    await at.fleet.pause_pipeline(REF, mortal=False)
    await asyncio.sleep(60.0)
    await at.fleet.resume_pipeline(REF, mortal=False)
    await settled(at)


@life("out of budget")
async def out_of_budget(at: Simulated) -> None:
    hows, cap = ["", "", "", ""], Cap(20)
    await at.fleet.submit(REF, simple, items(*hows), budget=cap, mortal=False)
    await asyncio.sleep(60.0)
    await at.fleet.raise_budget(REF, 10, mortal=False)
    await at.fleet.resume(REF, mortal=False)
    await settled(at)


@life("budget raised in a paused pipeline")
async def raised_in_pause(at: Simulated) -> None:
    """Raise the budget of a job: its calls wait for the resume of its pipeline."""
    hows, cap = ["", "", "", ""], Cap(20)
    await at.fleet.submit(REF, simple, items(*hows), budget=cap, mortal=False)
    await asyncio.sleep(60.0)
    await at.fleet.pause_pipeline(REF, mortal=False)
    await at.fleet.raise_budget(REF, 40, mortal=False)
    await asyncio.sleep(0.1)
    job = await at.rt.jobs.read(REF)
    assert job is not None
    assert is_paused_by_pipeline(job)
    await at.fleet.resume_pipeline(REF, mortal=False)
    await settled(at)


@life("sampled")
async def sampled(at: Simulated) -> None:
    await at.fleet.submit(REF, simple, items(*[""] * 5), sample=2, mortal=False)
    await asyncio.sleep(60.0)
    await resume(at.rt, REF, actor="us", reason="it is good")
    await settled(at)


@life("backlog")
async def backlog(at: Simulated) -> None:
    await ends(at, *[""] * 100, priority=Priority.LOW)


@life("deadline")
async def deadline(at: Simulated) -> None:
    at_time = at.rt.clock() + 30.0
    await ends(at, "slow", "", of=works, deadline=at_time)


@life("deadline in a pause after the stop", max_chunks=2)
async def deadline_after_stop(at: Simulated) -> None:
    hows, at_time = ["slow", "refused", "refused", *["slow"] * 3], at.rt.clock() + 300
    await at.fleet.submit(REF, works, items(*hows), at_time, mortal=False)
    await asyncio.sleep(50.0)
    await at.fleet.pause(REF, mortal=False)
    await settled(at)


@life("deadline after the pivot")
async def deadline_after_pivot(at: Simulated) -> None:
    at_time = at.rt.clock() + 30.0
    await ends(at, "goes on", "goes on", of=paying, deadline=at_time)


@life("cancelled and retried")
async def cancelled(at: Simulated) -> None:
    await at.submit(works, items("slow", "", "effect"))
    await asyncio.sleep(5.0)
    await at.fleet.cancel(REF, mortal=False)
    await settled(at)
    await at.fleet.retry(REF, mortal=False)
    await settled(at)


@life("equal call cancelled")
async def equal_call_cancelled(at: Simulated) -> None:
    await at.submit(simple, items("think"))
    await asyncio.sleep(5.0)
    await at.fleet.cancel(REF, mortal=False)
    await settled(at)


@life("redriven join")
async def redriven_join(at: Simulated) -> None:
    await ends(at, "", "refused", of=laddered)
    Shop.closed = False
    await at.fleet.redrive(REF, mortal=False)
    await settled(at)


@life("compensated at the pivot")
async def compensated_at_its_pivot(at: Simulated) -> None:
    await at.submit(paying, items("late", "late", ""))
    await asyncio.sleep(5.0)
    await cancel(at.rt, REF, actor="us", reason="enough", compensate=True)
    await settled(at)


@life("cancelled after the pivot, without a budget")
async def cancelled_without_budget(at: Simulated) -> None:
    hows, cap = ["spends"], Cap(5)
    await at.fleet.submit(REF, paying, items(*hows), budget=cap, mortal=False)
    await asyncio.sleep(5.0)
    await cancel(at.rt, REF, actor="us", reason="enough", compensate=True)
    await asyncio.wait_for(settled(at), 1_000.0)


@life("compensated, and killed", max_attempts=3)
async def compensated_and_killed(at: Simulated) -> None:
    strike(at, "applied", lambda exchange: "REFUSED" in str(exchange.request))
    await compensated_at_its_pivot(at)


@life("redriven and deleted")
async def redriven(at: Simulated) -> None:
    await ends(at, "refused", "", "refused", of=works)
    Shop.closed = False
    await at.fleet.redrive(REF, mortal=False)
    await settled(at)
    late = Message.about(REF.chunk(1), 2)
    send(at, at.world.settings.work_queue, late)
    await asyncio.sleep(0.5)
    await at.fleet.delete(REF, mortal=False)
    send(at, at.world.settings.work_queue, late)
    await asyncio.sleep(30.0)


@life("paused while it retries", max_attempts=3)
async def paused_groups(at: Simulated) -> None:
    hows = ["retry", *[""] * keys.PARTITION_SIZE, "retry", "slow"]
    await at.submit(simple, items(*hows))
    await asyncio.sleep(8.0)
    await at.fleet.pause(REF, mortal=False)
    await asyncio.sleep(100.0)
    await at.fleet.resume(REF, mortal=False)
    await settled(at)


@life("cancelled while it is submitted")
async def cancelled_early(at: Simulated) -> None:
    task = asyncio.ensure_future(at.submit(works, items(*["slow"] * 300)))
    await asyncio.sleep(0.3)
    await at.fleet.cancel(REF, mortal=False)
    await task
    await settled(at)
