"""Define the built-in pipeline with replans, variants and fallback chains.

One chain has no effects; the other has. A provider refuses at random. So a provider
that is called again may execute a call that a fallback has already executed.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from piecework import (
    Context,
    Dependency,
    Fallback,
    Pipeline,
    PolicyError,
    SemanticError,
    Stage,
)
from piecework_simulation.driver.pipelines import (
    QUICK,
    Item,
    book,
    desk,
    post,
    shop,
    sized,
    trouble,
    unbook,
)
from piecework_simulation.provider import PROVIDER


def refuse_at_times() -> None:
    """Refuse, now and then, by a rule of the other side's."""
    if PROVIDER.get().refuses():
        message = "not that"
        raise PolicyError(message, code="tool.policy.refused", http_status=403)


async def ask(n: int, size: int, hint: str, *, idempotency_key: str) -> str:
    """Be a paid model call that may be refused."""
    del idempotency_key
    refuse_at_times()
    return f"{n}{hint}" + "." * size


def answer_by_rules(n: int, size: int, hint: str) -> str:
    """Answer without a model."""
    return f"rules {n}{hint}" + "." * size


async def let_room(n: int, size: int, *, idempotency_key: str) -> str:
    """Let a room, unless the provider refuses."""
    refuse_at_times()
    return await book("room", n, size, idempotency_key=idempotency_key)


small = Dependency("small", retry=QUICK, timeout=8.0, layer="llm")
large = replace(
    small,
    name="large",
    fallback=(Fallback(small, ask), Fallback(None, answer_by_rules)),
)
tavern = replace(desk, name="tavern")
barn = replace(post, name="barn")
inn = replace(
    shop, name="inn", fallback=(Fallback(tavern, let_room), Fallback(barn, let_room))
)


async def draft(ctx: Context[Item]) -> str:
    """Call a model, which may return invalid output or refuse."""
    hint = ctx.failure.code if ctx.failure else ""
    said = await ctx.call(large, ask, *sized(ctx), hint)
    if ctx.payload.trouble == "draft:semantic" and not hint:
        message = "nonsense"
        raise SemanticError(message, code="tool.output.nonsense")
    if ctx.payload.trouble == "draft:policy" and not hint:
        refuse_at_times()
    return said


async def draft_by_rules(ctx: Context[Item]) -> str:
    """Draft without a model."""
    return answer_by_rules(*sized(ctx), "")


async def lodge(ctx: Context[Item]) -> str:
    """Book a room at the inn, or at one of its fallbacks."""
    room = await ctx.call(inn, let_room, *sized(ctx))
    await asyncio.sleep(ctx.payload.seconds)
    trouble(ctx, "lodge")
    return room


async def leave(ctx: Context[Item]) -> None:
    """Cancel the room, at whichever provider it was booked."""
    await ctx.call(shop, unbook, "room", ctx.payload.n)


async def sign(ctx: Context[Item]) -> str:
    """Sign: the pivot."""
    return await ctx.call(shop, book, "signature", *sized(ctx))


planning = Pipeline(
    "planning",
    payload=Item,
    stages=[
        Stage(draft, replan=draft, fallback=[draft_by_rules]),
        Stage(lodge, compensate=leave),
        Stage(sign, pivot=True),
    ],
    result=sign,
)
