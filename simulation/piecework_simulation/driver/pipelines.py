"""Define the built-in pipelines of the simulator."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from pydantic import BaseModel

from piecework import (
    CircuitBreaker,
    Context,
    Dependency,
    Effect,
    Notification,
    PermanentError,
    Pipeline,
    Results,
    RetryPolicy,
    Stage,
    TransientError,
    Usage,
)
from piecework_simulation.provider import CALL_TOKENS, PROVIDER, ProviderError

SERVICE_UNAVAILABLE = 503
QUICK = RetryPolicy(attempts=3, base=0.2, cap=2.0)
model = Dependency(
    "model",
    retry=QUICK,
    timeout=8.0,
    usage=lambda _: Usage(CALL_TOKENS),
    estimate=lambda *_: CALL_TOKENS,
)
shop = Dependency("shop", retry=QUICK, timeout=8.0, effect=Effect.PROVIDER_IDEMPOTENT)
post = Dependency("post", retry=QUICK, timeout=8.0, effect=Effect.NON_IDEMPOTENT)


async def nothing_found(*_: Any, idempotency_key: str) -> None:
    """Replace the provider's search; the simulator answers it."""
    del idempotency_key


desk = Dependency(
    "desk", retry=QUICK, timeout=8.0, effect=Effect.LOOKUP, lookup=nothing_found
)


class Item(BaseModel):
    """A chunk: a number, its calls, and the error that its payload requests.

    Attributes:
        size: The bytes that are added to its values; 0: none.
    """

    n: int
    calls: int = 1
    trouble: str = ""
    seconds: float = 0.0
    size: int = 0


async def score(n: int, *, idempotency_key: str) -> int:
    """Be a paid model call."""
    del idempotency_key
    return n * 2


async def book(what: str, n: int, size: int = 0, *, idempotency_key: str) -> str:
    """Make a booking."""
    del idempotency_key
    return f"{what}-{n}" + "." * size


async def unbook(what: str, n: int, *, idempotency_key: str) -> None:
    """Cancel a booking, if it exists."""
    del what, n, idempotency_key


def trouble(ctx: Context[Item], stage: str) -> None:
    """Raise the error that the payload requests for this stage."""
    if ctx.payload.trouble == f"{stage}:permanent":
        raise PermanentError("out of stock", code="tool.stock.none")
    if ctx.payload.trouble == f"{stage}:transient":
        raise TransientError("not now", code="tool.stock.busy", retry_after=0.5)


def sized(ctx: Context[Item]) -> tuple[int, int]:
    """Return the number of a chunk and the size of its answers."""
    return ctx.payload.n, ctx.payload.size


# ── paid calls and a join ───────────────────────────────────────────────────


def read(ctx: Context[Item]) -> int:
    """Do something quick, in a thread."""
    return ctx.payload.n + 100


async def analyse(ctx: Context[Item]) -> list[int]:
    """Make the chunk's calls side by side."""
    trouble(ctx, "analyse")
    await asyncio.sleep(ctx.payload.seconds)
    first = ctx.result(read)
    calls = (ctx.call(model, score, first * 10 + i) for i in range(ctx.payload.calls))
    return [*await asyncio.gather(*calls), *[0] * (ctx.payload.size // 2)]


async def total(ctx: Results) -> int:
    """Add the results up, and pay for a summary."""
    found = 0
    async for result in ctx:
        found += sum(result.value)
    summed = await ctx.call(model, score, found)
    await ctx.write("total.txt", f"{summed} {len(ctx.missing)}")
    return summed


counting = Pipeline(
    "counting", payload=Item, stages=[Stage(read), Stage(analyse)], join=total
)


# ── a saga: every kind of effect, a pivot ───────────────────────────────────


async def flight(ctx: Context[Item]) -> str:
    """Book the flight; the provider honours idempotency keys."""
    return await ctx.call(shop, book, "flight", *sized(ctx))


async def cancel_flight(ctx: Context[Item]) -> None:
    """Compensate the flight."""
    await ctx.call(shop, unbook, "flight", ctx.payload.n)


async def hotel(ctx: Context[Item]) -> str:
    """Book the hotel; the booking can be looked up."""
    trouble(ctx, "hotel")
    await asyncio.sleep(ctx.payload.seconds)
    return await ctx.call(desk, book, "hotel", *sized(ctx))


async def cancel_hotel(ctx: Context[Item]) -> None:
    """Compensate the hotel."""
    await ctx.call(shop, unbook, "hotel", ctx.payload.n)


async def pay(ctx: Context[Item]) -> str:
    """Pay: the pivot."""
    trouble(ctx, "pay")
    return await ctx.call(shop, book, "payment", *sized(ctx))


async def write(ctx: Context[Item]) -> str:
    """Send a letter; this effect can be neither repeated nor looked up."""
    trouble(ctx, "write")
    return await ctx.call(post, book, "letter", *sized(ctx))


async def tell(notice: Notification) -> None:
    """Accept a notification of a job's end."""
    del notice


travel = Pipeline(
    "travel",
    payload=Item,
    notify=tell,
    stages=[
        Stage(flight, compensate=cancel_flight),
        Stage(hotel, compensate=cancel_hotel),
        Stage(pay, pivot=True),
        Stage(write),
    ],
    result=pay,
)


# ── dependencies with outages: calls, effects and compensations wait ────────

QUICK_BREAKER = CircuitBreaker(
    minimum_calls=3, window_calls=6, window_s=20.0, open_s=4.0, max_open_s=12.0
)
mill = replace(model, name="mill", breaker=QUICK_BREAKER)
cart = replace(shop, name="cart", breaker=QUICK_BREAKER)
gate = replace(desk, name="gate", breaker=QUICK_BREAKER)
horn = replace(post, name="horn", breaker=QUICK_BREAKER)


def fail_in_outage() -> None:
    """Answer 503 during an outage."""
    if PROVIDER.get().is_down:
        raise ProviderError(SERVICE_UNAVAILABLE)


async def grind(n: int, *, idempotency_key: str) -> int:
    """Make a paid call to a dependency that has outages."""
    fail_in_outage()
    return await score(n, idempotency_key=idempotency_key)


async def carry(what: str, n: int, size: int = 0, *, idempotency_key: str) -> str:
    """Carry something away, unless there is an outage."""
    fail_in_outage()
    return await book(what, n, size, idempotency_key=idempotency_key)


async def bring_back(what: str, n: int, *, idempotency_key: str) -> None:
    """Bring something back, unless there is an outage."""
    fail_in_outage()
    await unbook(what, n, idempotency_key=idempotency_key)


async def flour(ctx: Context[Item]) -> list[int]:
    """Grind, several at once."""
    calls = (ctx.call(mill, grind, i) for i in range(ctx.payload.calls))
    return list(await asyncio.gather(*calls))


async def sacks(ctx: Context[Item]) -> str:
    """Carry the sacks off."""
    return await ctx.call(cart, carry, "sacks", *sized(ctx))


async def bring_sacks_back(ctx: Context[Item]) -> None:
    """Compensate the carrying."""
    await ctx.call(cart, bring_back, "sacks", ctx.payload.n)


async def pass_gate(ctx: Context[Item]) -> str:
    """Pass the gate: the pivot."""
    trouble(ctx, "gate")
    return await ctx.call(gate, carry, "through", *sized(ctx))


async def sound(ctx: Context[Item]) -> str:
    """Sound the horn, once."""
    return await ctx.call(horn, carry, "horn", *sized(ctx))


milling = Pipeline(
    "milling",
    payload=Item,
    stages=[
        Stage(flour),
        Stage(sacks, compensate=bring_sacks_back),
        Stage(pass_gate, pivot=True),
        Stage(sound),
    ],
    result=pass_gate,
)
