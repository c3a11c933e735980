"""Define the built-in pipeline whose dependencies have limits that the fleet shares.

Its providers also have outages. A call then waits for its start, for its breaker's
permit and for the intent of its effect.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from dataclasses import replace
from typing import TypeVar

from piecework import Approval, Context, Escalate, Limits, Pipeline, Stage, Usage
from piecework.domain.budget import NANO
from piecework.llm import Lane
from piecework_simulation.driver.pipelines import (
    Item,
    bring_back,
    carry,
    cart,
    gate,
    grind,
    horn,
    mill,
    trouble,
)
from piecework_simulation.provider import FULL_NANO_USD, SERVED, TIER_NANO_USD

A = TypeVar("A")

#: Seconds that a stage sleeps, by its payload: in the worker, in the queue, without it.
SLEEPS_S = (0.0, 0.0, 1.0, 45.0, 1_200.0)
#: Seconds until a question ends, by its payload: it has none, ends in the faults, or
#: outlives them.
QUESTIONS_S = (0.0, 5.0, 300.0, 5.0, 30.0, 1_500.0, 5.0)
#: A question has a default if its chunk makes more calls.
CALLS_WITHOUT_DEFAULT = 2


def weigh(n: int) -> int:
    """Return the tokens of a call, exactly."""
    return 10 + n % 50


async def sift(n: int, *, idempotency_key: str) -> tuple[int, int, str]:
    """Make a paid call whose answer names its tokens, and the tier that served it."""
    return await grind(n, idempotency_key=idempotency_key), weigh(n), SERVED.get()


def by_tier(answer: tuple[int, int, str]) -> Usage:
    """Return what an answer cost: the tier that it names decides."""
    _, tokens, tier = answer
    nano_usd = TIER_NANO_USD.get(tier, FULL_NANO_USD)
    return Usage(tokens, usd=nano_usd / NANO, model=f"scale {tier}".strip())


meter = replace(mill, name="meter", limits=Limits(requests_per_minute=16, concurrent=3))
scale = replace(
    mill,
    name="scale",
    limits=Limits(tokens_per_minute=400, requests_per_second=2),
    estimate=weigh,
    usage=by_tier,
    estimate_usd=lambda *_: FULL_NANO_USD / NANO,
    lane=Lane.flex(timeout=16.0, within=300.0),
)
cable = replace(cart, name="cable", limits=Limits(requests_per_minute=12))
fax = replace(gate, name="fax", limits=Limits(requests_per_minute=8))
wire = replace(horn, name="wire", limits=Limits(requests_per_minute=8))


async def measure(ctx: Context[Item]) -> list[int]:
    """Make calls under both kinds of limits, all at once."""
    first, calls = ctx.payload.n * 10, range(ctx.payload.calls)
    found = [ctx.call(meter, grind, first + i) for i in calls]
    sifted = [ctx.call(scale, sift, first + i) for i in calls]
    answers, weighed = await asyncio.gather(gathered(found), gathered(sifted))
    answers += [number for number, _, _ in weighed]
    await ctx.sleep(SLEEPS_S[ctx.payload.n % len(SLEEPS_S)])
    return answers


async def gathered(calls: Iterable[Awaitable[A]]) -> list[A]:
    """Return the answers of calls that are made at once."""
    return list(await asyncio.gather(*calls))


async def order(ctx: Context[Item]) -> list[str]:
    """Order a part for each call: effects that wait for their starts."""
    n, calls = ctx.payload.n * 10, range(ctx.payload.calls)
    parts = (ctx.call(cable, carry, "part", n + i) for i in calls)
    return list(await asyncio.gather(*parts))


async def return_parts(ctx: Context[Item]) -> None:
    """Compensate the orders."""
    for i in range(ctx.payload.calls):
        await ctx.call(cable, bring_back, "part", ctx.payload.n * 10 + i)


async def confirm(ctx: Context[Item]) -> str:
    """Confirm: the pivot; a lookup needs a start, too."""
    trouble(ctx, "confirm")
    await ask(ctx)
    return await ctx.call(fax, carry, "confirmation", ctx.payload.n)


async def ask(ctx: Context[Item]) -> None:
    """Ask a person, with reminders; without an answer some questions fail the chunk."""
    timeout = QUESTIONS_S[ctx.payload.n % len(QUESTIONS_S)]
    if timeout:
        has_default = ctx.payload.calls > CALLS_WITHOUT_DEFAULT
        no = Approval(approved=False) if has_default else None
        await ctx.wait_for(
            "approval",
            ask=f"Confirm {ctx.payload.n}?",
            timeout=timeout,
            remind=[timeout / 3, timeout / 2],
            escalate=Escalate(timeout * 2 / 3, "leads"),
            default=no,
        )


async def announce(ctx: Context[Item]) -> str:
    """Announce it, once."""
    return await ctx.call(wire, carry, "announcement", ctx.payload.n)


metering = Pipeline(
    "metering",
    payload=Item,
    stages=[
        Stage(measure),
        Stage(order, compensate=return_parts),
        Stage(confirm, pivot=True),
        Stage(announce),
    ],
    result=confirm,
)
