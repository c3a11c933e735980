"""Define the pipelines of the sweep; the payload decides the outcome of each chunk."""

from __future__ import annotations

import asyncio

from pydantic import BaseModel

from piecework import (
    Approval,
    Context,
    Dependency,
    Effect,
    Pipeline,
    Results,
    Stage,
    TransientError,
)
from piecework_simulation.crash_points.provider import RECORDING_PROVIDER
from piecework_simulation.driver.pipelines import (
    QUICK,
    desk,
    model,
    nothing_found,
    post,
    shop,
)

#: Timeout of a call that the scenario holds open, in seconds.
PATIENCE_S = 45.0
#: The `retry_after` of a call that the provider postpones, in seconds.
LATER_S = 900.0
#: Seconds until a question ends, and until it is told again.
ASKED_S, REMINDED_S = 1_200.0, 20.0

slow_model = Dependency("model", retry=QUICK, timeout=PATIENCE_S)
slow_desk = Dependency(
    "desk",
    retry=QUICK,
    timeout=PATIENCE_S,
    effect=Effect.LOOKUP,
    lookup=nothing_found,
)


class Customer(BaseModel):
    """A chunk: a customer number, and `{stage}:{condition}`."""

    n: int
    kind: str = ""


async def score(n: int, where: str, kind: str, *, idempotency_key: str) -> int:
    """Be a paid model call."""
    del idempotency_key
    await RECORDING_PROVIDER.get().answer_or_hold(where, kind)
    return n * 2


async def book(what: str, n: int, kind: str, *, idempotency_key: str) -> str:
    """Make a booking for a customer."""
    del idempotency_key
    provider = RECORDING_PROVIDER.get()
    await provider.answer_or_hold(what, kind)
    provider.record_booking(what, n)
    return f"{what}-{n}"


async def unbook(what: str, n: int, *, idempotency_key: str) -> None:
    """Cancel a booking, if it exists."""
    del idempotency_key
    RECORDING_PROVIDER.get().record_cancellation(what, n)


async def meet_condition(ctx: Context[Customer], where: str) -> None:
    """Apply the payload's condition before the stage's own call."""
    n, kind = ctx.payload.n, ctx.payload.kind
    if kind == f"{where}:later" and not RECORDING_PROVIDER.get().recovered:
        raise TransientError("later", code="tool.shop.later", retry_after=LATER_S)
    if kind == f"{where}:waits" and ctx.attempt == 1:
        raise TransientError("later", code="tool.shop.later", retry_after=LATER_S)
    if kind == f"{where}:thinking":
        await ctx.call(slow_model, score, n, where, f"{where}:held")


# ── paid calls and a join ───────────────────────────────────────────────────


def read(ctx: Context[Customer]) -> int:
    """Do something quick, in a thread."""
    return ctx.payload.n + 100


async def analyse(ctx: Context[Customer]) -> list[int]:
    """Make the chunk's calls side by side."""
    await meet_condition(ctx, "analyse")
    first, kind = ctx.result(read) * 10, ctx.payload.kind
    numbers = range(first, first + (3 if kind == "analyse:thrice" else 1))
    dependency = slow_model if kind == "analyse:held" else model
    calls = (ctx.call(dependency, score, n, "analyse", kind) for n in numbers)
    return list(await asyncio.gather(*calls))


async def total(ctx: Results) -> int:
    """Add the results up, and pay for a summary."""
    found = 0
    async for result in ctx:
        found += sum(result.value)
    summed = await ctx.call(model, score, found, "total", "")
    await ctx.write("total.txt", f"{summed} {len(ctx.missing)}")
    return summed


counting = Pipeline(
    "counting", payload=Customer, stages=[Stage(read), Stage(analyse)], join=total
)


# ── a saga: every kind of effect, a pivot ───────────────────────────────────


async def flight(ctx: Context[Customer]) -> str:
    """Book the flight; the provider honours idempotency keys."""
    return await ctx.call(shop, book, "flight", ctx.payload.n, ctx.payload.kind)


async def cancel_flight(ctx: Context[Customer]) -> None:
    """Compensate the flight."""
    await ctx.call(shop, unbook, "flight", ctx.payload.n)


async def hotel(ctx: Context[Customer]) -> str:
    """Book the hotel; the booking can be looked up."""
    await meet_condition(ctx, "hotel")
    dependency = slow_desk if ctx.payload.kind == "hotel:held" else desk
    return await ctx.call(dependency, book, "hotel", ctx.payload.n, ctx.payload.kind)


async def cancel_hotel(ctx: Context[Customer]) -> None:
    """Compensate the hotel."""
    await ctx.call(shop, unbook, "hotel", ctx.payload.n)


async def pay(ctx: Context[Customer]) -> str:
    """Pay: the pivot."""
    return await ctx.call(shop, book, "pay", ctx.payload.n, ctx.payload.kind)


async def write(ctx: Context[Customer]) -> str:
    """Write to the customer; some letters cannot be looked up."""
    await meet_condition(ctx, "write")
    way = post if ctx.payload.n % 7 in {2, 3} else shop
    return await ctx.call(way, book, "write", ctx.payload.n, ctx.payload.kind)


travel = Pipeline(
    "travel",
    payload=Customer,
    stages=[
        Stage(flight, compensate=cancel_flight),
        Stage(hotel, compensate=cancel_hotel),
        Stage(pay, pivot=True),
        Stage(write),
    ],
    result=pay,
)


# ── a stage that asks a person ───────────────────────────────────────────────


async def approve(ctx: Context[Customer]) -> bool:
    """Ask, between two calls."""
    n, kind = ctx.payload.n, ctx.payload.kind
    await ctx.call(model, score, n, "approve", "")
    approved = True
    if kind.startswith("approve:asks"):
        answer = await ctx.wait_for(
            "approval",
            ask=f"Approve {n}?",
            timeout=ASKED_S,
            remind=[REMINDED_S],
            default=Approval(approved=False),
        )
        approved = answer.approved
    await ctx.call(model, score, n + 100, "approve", "")
    return approved


approving = Pipeline("approving", payload=Customer, stages=[Stage(approve)])
