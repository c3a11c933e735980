"""Whole jobs on a simulated AWS without faults: one for each thing that may happen."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Any

from pydantic import BaseModel

from piecework import (
    CircuitBreaker,
    Context,
    Dependency,
    Effect,
    Escalation,
    Fallback,
    Ladder,
    Limits,
    Notification,
    PermanentError,
    Pipeline,
    Results,
    RetryPolicy,
    Rung,
    Stage,
    TimeWindow,
    TransientError,
    Usage,
)
from piecework.aws.queue import Message
from piecework.domain import keys
from piecework.domain.budget import Cap
from piecework.domain.priority import Priority
from piecework.jobs.budgeting import set_tenant_budget
from piecework_orchestrator.cancel import cancel
from piecework_orchestrator.pause import resume
from piecework_orchestrator.webhooks import Subscription, set_webhook
from piecework_simulation.crash_points.run import SETTINGS, build_driver, run_scenario
from piecework_simulation.crash_points.scenarios import SCENARIOS
from piecework_simulation.engine.faults import Faults
from piecework_simulation.engine.leftovers import leftovers_discarded
from piecework_simulation.engine.network import Exchange
from piecework_simulation.engine.world import World
from tests.unit.orchestrator.simulated import REF, Simulated, simulate

Note = Callable[[str, Exchange], None]
ONCE = RetryPolicy(attempts=1)
DAY_S = 86_400.0
SECRET = "env:PIECEWORK_WEBHOOK_OPS"


class Item(BaseModel):
    """A chunk; `how`: what its stage does."""

    n: int
    how: str = ""


class Shop:
    """A service that refuses and fails while it is closed."""

    closed = True


async def answer(n: int, *, idempotency_key: str) -> int:
    """Answer a call."""
    del idempotency_key
    return n


async def fail(n: int, *, idempotency_key: str) -> int:
    """Fail while the shop is closed."""
    del idempotency_key
    if Shop.closed:
        raise TransientError(f"down {n}", code="tool.http.503_unavailable")
    return n


plain = Dependency("plain", usage=lambda _: Usage(10), estimate=lambda *_: 10)
broken = Dependency(
    "broken", retry=ONCE, breaker=CircuitBreaker(minimum_calls=2, open_s=30.0)
)
spare = Dependency(
    "spare",
    retry=ONCE,
    breaker=None,
    fallback=[Fallback(plain, answer)],
    fallback_codes=frozenset({"tool.http.503_unavailable"}),
)
limited = Dependency("limited", limits=Limits(requests_per_minute=6, concurrent=2))
shared = Dependency("shared", by=TimeWindow(300.0), scope="all")
shop = Dependency("shop", effect=Effect.PROVIDER_IDEMPOTENT)
#: What the stage calls, by the order of its chunk.
CALLS: dict[str, tuple[Dependency, Any]] = {
    "": (plain, answer),
    "broken": (broken, fail),
    "spare": (spare, fail),
    "limited": (limited, answer),
    "shared": (shared, answer),
    "effect": (shop, answer),
}


async def work(ctx: Context[Item]) -> int:
    """Do what the order of the chunk says."""
    n, how = ctx.payload.n, ctx.payload.how
    if how == "slow":
        await asyncio.sleep(100.0)
    elif how == "steps":
        for step in range(30):
            await ctx.call(plain, answer, 100 * n + step)
            await asyncio.sleep(1.0)
    elif how == "sleep":
        await ctx.sleep(minutes=30)
    elif how == "retry" and ctx.attempt == 1:
        raise TransientError("not now", code="tool.shop.busy", retry_after=5.0)
    elif how == "refused" and Shop.closed:
        await ctx.call(plain, answer, n)
        raise PermanentError("broken", code="tool.shop.broken")
    elif how in CALLS:
        return await ctx.call(*CALLS[how], 1 if how == "shared" else n)
    return n


async def pay(ctx: Context[Item]) -> int:
    """Act, after a while: the point of no return."""
    if ctx.payload.how == "late":
        await asyncio.sleep(60.0)
    paid = await ctx.call(shop, answer, ctx.payload.n)
    if ctx.payload.how == "goes on":
        await asyncio.sleep(60.0)
    return paid


async def undo(ctx: Context[Item]) -> None:
    """Compensate by a call."""
    await ctx.call(plain, answer, -ctx.payload.n)


async def count(results: Results[int]) -> int:
    """Count the results."""
    return len([result async for result in results])


async def refuse(results: Results[int]) -> None:
    """Fail the join while the shop is closed."""
    del results
    if Shop.closed:
        raise PermanentError("closed", code="tool.shop.closed")


async def hook(notice: Escalation) -> None:
    """Accept the notification of a rung."""
    del notice


async def tell(notice: Notification) -> None:
    """Accept the notification of an end."""
    del notice


works = Pipeline(
    "works",
    payload=Item,
    stages=[Stage(work, compensate=undo)],
    join=count,
    notify=tell,
)
simple = Pipeline("simple", payload=Item, stages=[Stage(work)])
ordered = Pipeline(
    "ordered", payload=Item, stages=[Stage(work)], ordered_by=lambda item: item.n % 2
)
paying = Pipeline(
    "paying",
    payload=Item,
    stages=[Stage(work, compensate=undo), Stage(pay, pivot=True)],
)
laddered = Pipeline(
    "laddered",
    payload=Item,
    stages=[Stage(work)],
    join=refuse,
    ladder=Ladder(
        retry_after_s=(5, 20), rungs=[Rung("alert"), Rung("ticket", hook, 60)]
    ),
)

Life = Callable[[Simulated], Awaitable[None]]
LIVES: dict[str, tuple[Life, dict[str, Any]]] = {}


def life(name: str, **settings: Any) -> Callable[[Life], Life]:
    """Register a life, with the settings that differ from the defaults."""

    def register(act: Life) -> Life:
        LIVES[name] = act, settings
        return act

    return register


def items(*hows: str) -> list[Item]:
    """Return a chunk for each order."""
    return [Item(n=n, how=how) for n, how in enumerate(hows)]


async def ends(at: Simulated, *hows: str, of: Pipeline = simple, **more: Any) -> None:
    """Submit a job, and wait for its end and the cleanup after it."""
    payloads = items(*hows)
    assert await at.fleet.submit(REF, of, payloads, mortal=False, **more) == "done"
    await settled(at)


async def settled(at: Simulated) -> None:
    """Wait for the end of the job, and for the cleanup after it."""
    await at.ended()
    await asyncio.sleep(90.0)


def send(at: Simulated, queue: str, message: Message | str) -> None:
    """Send a message, or any text, to a queue."""
    body = message if isinstance(message, str) else message.model_dump_json()
    request = {"QueueUrl": at.world.urls[queue], "MessageBody": body}
    at.world.sqs.call("send_message", request)


def strike(
    at: Simulated, when: str, is_hit: Callable[[Exchange], bool], freeze_s: float = 0.0
) -> None:
    """Kill, or freeze, the process that next makes such a request."""
    note = at.world.on_exchange

    def watch(moment: str, exchange: Exchange) -> None:
        note(moment, exchange)
        if moment == when and is_hit(exchange):
            at.world.on_exchange = note
            process = exchange.client.process
            if freeze_s:
                at.world.loop.freeze(process, freeze_s)
            else:
                at.world.kill(process)

    at.world.on_exchange = watch


def end_workers(at: Simulated) -> None:
    """End all workers for good."""
    for process in list(at.fleet.workers):
        process.on_death = lambda: None
        at.world.kill(process)


def calls(name: str, *hows: str, of: Pipeline = simple, **settings: Any) -> None:
    """Register a life without an operator."""
    life(name, **settings)(lambda at: ends(at, *hows, of=of))


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
    await at.submit(ordered, items("refused", "", "", "", ""))
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


@life("redriven join")
async def redriven_join(at: Simulated) -> None:
    await ends(at, "", "refused", of=laddered)
    Shop.closed = False
    await at.fleet.redrive(REF, mortal=False)
    await settled(at)


@life("turned back at the pivot")
async def turned_back(at: Simulated) -> None:
    await at.submit(paying, items("late", "late", ""))
    await asyncio.sleep(5.0)
    await cancel(at.rt, REF, actor="us", reason="enough", compensate=True)
    await settled(at)


@life("turned back, and killed", max_attempts=3)
async def turned_back_and_killed(at: Simulated) -> None:
    strike(at, "applied", lambda exchange: "REFUSED" in str(exchange.request))
    await turned_back(at)


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


def killed_at(name: str, what: str, *hows: str, **settings: Any) -> None:
    """Register a life in which the process dies that is about to send such text."""

    async def act(at: Simulated) -> None:
        strike(at, "asked", lambda exchange: what in str(exchange.request))
        await ends(at, *hows, of=works)

    life(name, **settings)(act)


killed_at("killed before the join", "'sk': {'S': 'JOIN'}}, 'UpdateE", "")
killed_at("killed before the certificate", "/certificate/", "", "refused")
killed_at("killed before the end is told", "NOTIFICATION#0001#end", "")


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


#: The lives, and those scenarios of the crash points that have their faults at calls.
ALL = [*LIVES, *(name for name, each in SCENARIOS.items() if not each.steps)]


def run_life(name: str, note: Note, say: Callable[[str], None]) -> None:
    """Run a life; note each request to AWS and, without a scenario, each log line."""
    if name in SCENARIOS:
        run_scenario_of(name, note)
        return
    act, settings = LIVES[name]
    Shop.closed = True
    lines: list[str] = []

    async def noted(at: Simulated) -> None:
        at.world.on_exchange = note
        await act(at)
        for line in lines:  # later ones come from the end of the simulation
            say(line)

    pipelines: Sequence[Pipeline] = (works, simple, ordered, paying, laddered)
    simulate(noted, pipelines, workers=2, said=lines.append, **settings)


def run_scenario_of(name: str, note: Note) -> None:
    """Run a scenario of the crash points: sagas, cancels, questions and long waits."""
    rng = Random(1)
    world = World(SETTINGS, Faults({}, rng), rng)
    chunks = 3 if name == "ask" else 7  # one customer of each kind
    driver = build_driver(world, SCENARIOS[name], chunks)
    follow = world.on_exchange

    def both(when: str, exchange: Exchange) -> None:
        follow(when, exchange)
        note(when, exchange)

    world.on_exchange = both
    with leftovers_discarded(world):
        world.loop.run(run_scenario(driver, SCENARIOS[name]))
    assert not driver.invariants.violations
