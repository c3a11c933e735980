"""What a life of a job is made of: its pipelines, and how a test drives it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
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
from piecework_simulation.engine.network import Exchange
from tests.unit.orchestrator.simulated import REF, Simulated

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


async def think(n: int, *, idempotency_key: str) -> int:
    """Answer a call after a while."""
    await asyncio.sleep(20.0)
    return await answer(n, idempotency_key=idempotency_key)


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
    "think": (shared, think),
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
    elif how == "ask":
        await ctx.wait_for("go", ask="Go?", timeout=3_000.0, remind=[900.0])
    elif how == "retry" and ctx.attempt == 1:
        raise TransientError("not now", code="tool.shop.busy", retry_after=5.0)
    elif how == "refused" and Shop.closed:
        await ctx.call(plain, answer, n)
        raise PermanentError("broken", code="tool.shop.broken")
    elif how in CALLS:
        return await ctx.call(*CALLS[how], 1 if how == "shared" else n)
    return n


async def pay(ctx: Context[Item]) -> int:
    """Act, after a while: the pivot."""
    if ctx.payload.how == "late":
        await asyncio.sleep(60.0)
    paid = await ctx.call(shop, answer, ctx.payload.n)
    if ctx.payload.how in ("goes on", "spends"):
        await asyncio.sleep(60.0)
    if ctx.payload.how == "spends":
        await ctx.call(plain, answer, paid)
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


async def charge(results: Results[int]) -> None:
    """Call, and fail the join while the shop is closed."""
    await results.call(plain, answer, 0)
    await refuse(results)


async def hook(notice: Escalation) -> None:
    """Accept the notification of a rung."""
    del notice


async def tell(notice: Notification) -> None:
    """Accept the notification of an end."""
    del notice


works = Pipeline(
    "works",
    payload=Item,
    stages=[Stage(work, compensate=undo, undo_if_failed=True)],
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
    stages=[Stage(work, compensate=undo, undo_if_failed=True), Stage(pay, pivot=True)],
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
charging = Pipeline("charging", payload=Item, stages=[Stage(work)], join=charge)
PIPELINES: list[Pipeline] = [works, simple, ordered, paying, laddered, charging]

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


def lose_messages(at: Simulated) -> None:
    """Lose the messages of all chunks that no worker has received."""
    work = {"QueueUrl": at.world.urls[at.world.settings.work_queue]}
    while lost := at.world.sqs.call("receive_message", work).get("Messages"):
        receipt = {**work, "ReceiptHandle": lost[0]["ReceiptHandle"]}
        at.world.sqs.call("delete_message", receipt)


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


def killed_at(name: str, what: str, *hows: str, **settings: Any) -> None:
    """Register a life in which the process dies that is about to send such text."""

    async def act(at: Simulated) -> None:
        strike(at, "asked", lambda exchange: what in str(exchange.request))
        await ends(at, *hows, of=works)

    life(name, **settings)(act)
