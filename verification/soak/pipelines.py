"""The pipelines of the soak: plain, with a join, and a saga of all kinds of effects.

Whatever they do is asked of the provider (`SOAK_PROVIDER`), which keeps the books.
"""

from __future__ import annotations

import asyncio
import os
import signal
from dataclasses import dataclass
from typing import Any

from aiohttp import ClientSession, ClientTimeout
from pydantic import BaseModel

from piecework import (
    Context,
    Dependency,
    Effect,
    Pipeline,
    Results,
    RetryPolicy,
    Stage,
)

#: The trouble of a chunk that kills the process of its stage.
POISON = "poison"
RETRY = RetryPolicy(attempts=3, base=0.05, cap=0.2)
#: Of one attempt: what it left under way has landed by then.
TIMEOUT_S = 2.0


class Work(BaseModel):
    """A chunk: its number, and the stage at which it is to fail until it is fixed."""

    n: int
    trouble: str = ""


@dataclass(frozen=True)
class Operation:
    """Something that the provider can be asked to do.

    Attributes:
        kind: How it takes a repetition: see the provider.
        of: The operation that it undoes, if it undoes one.
    """

    name: str
    kind: str
    of: str = ""


async def ask(
    operation: Operation, place: tuple[str, int], key: str, *, doomed: bool
) -> str:
    """Ask the provider to do something."""
    job, chunk = place
    asked = {
        "op": operation.name,
        "kind": operation.kind,
        "of": operation.of,
        "job": job,
        "chunk": chunk,
        "key": key,
        "doomed": doomed,
    }
    async with session() as http, http.post("/do", json=asked) as response:
        response.raise_for_status()
        return str(await response.json())


async def seek(*_: Any, idempotency_key: str, **__: Any) -> str | None:
    """Ask the provider whether it was done already."""
    async with session() as http, http.get(f"/done/{idempotency_key}") as response:
        response.raise_for_status()
        answer: str | None = await response.json()
        return answer


async def fixed() -> bool:
    """Ask the provider whether what failed for good was put right."""
    async with session() as http, http.get("/fixed") as response:
        return bool(await response.json())


def session() -> ClientSession:
    """Open a connection of one call's own: a killed worker leaves nothing shared."""
    return ClientSession(
        os.environ["SOAK_PROVIDER"], timeout=ClientTimeout(total=TIMEOUT_S)
    )


model = Dependency("model", retry=RETRY, layer="llm", timeout=TIMEOUT_S)
shop = Dependency(
    "shop", retry=RETRY, effect=Effect.PROVIDER_IDEMPOTENT, timeout=TIMEOUT_S
)
depot = Dependency(
    "depot", retry=RETRY, effect=Effect.LOOKUP, lookup=seek, timeout=TIMEOUT_S
)
bank = Dependency("bank", retry=RETRY, effect=Effect.NON_IDEMPOTENT, timeout=TIMEOUT_S)

RESERVE = Operation("reserve", "keyed")
RELEASE = Operation("release", "keyed", of="reserve")
HOLD = Operation("hold", "sought")
DROP = Operation("drop", "keyed", of="hold")
CHARGE = Operation("charge", "naive")
DELIVER = Operation("deliver", "keyed")
#: What the provider does again if it is asked again, whatever the key.
NAIVE = frozenset({"charge"})


async def think(
    job: str, chunk: int, question: str, *, doomed: bool, idempotency_key: str
) -> int:
    """Be a paid call that leaves nothing behind."""
    operation = Operation(question, "call")
    await ask(operation, (job, chunk), idempotency_key, doomed=doomed)
    return chunk


async def do(
    job: str, chunk: int, operation: Operation, *, doomed: bool, idempotency_key: str
) -> str:
    """Be a call that leaves something behind."""
    return await ask(operation, (job, chunk), idempotency_key, doomed=doomed)


async def thought(ctx: Context[Work], question: str) -> int:
    """Make a paid call for a chunk."""
    doomed = ctx.payload.trouble == question
    return await ctx.call(model, think, ctx.job, ctx.chunk, question, doomed=doomed)


async def done(
    ctx: Context[Work], dependency: Dependency, operation: Operation
) -> None:
    """Bring something about for a chunk."""
    doomed = ctx.payload.trouble == operation.name
    await ctx.call(dependency, do, ctx.job, ctx.chunk, operation, doomed=doomed)


# ── plain, and with a join ──────────────────────────────────────────────────


async def read(ctx: Context[Work]) -> int:
    """Make two calls at once."""
    if ctx.payload.trouble == POISON and not await fixed():
        os.kill(os.getpid(), signal.SIGKILL)
    answers = await asyncio.gather(thought(ctx, "read-a"), thought(ctx, "read-b"))
    return sum(answers)


async def sum_up(ctx: Context[Work]) -> int:
    """Make one more."""
    return ctx.result(read) + await thought(ctx, "sum-up")


async def total(ctx: Results) -> int:
    """Count the results."""
    found = 0
    async for _ in ctx:
        found += 1
    await ctx.write("total.txt", f"{found} of {found + len(ctx.missing)}")
    return found


plain = Pipeline(name="plain", payload=Work, stages=[Stage(read), Stage(sum_up)])
joined = Pipeline(
    name="joined", payload=Work, stages=[Stage(read), Stage(sum_up)], join=total
)


# ── a saga ──────────────────────────────────────────────────────────────────


async def quote(ctx: Context[Work]) -> int:
    """Think before anything is done."""
    return await thought(ctx, "quote")


async def reserve(ctx: Context[Work]) -> None:
    """Reserve, at a shop that honours keys."""
    await done(ctx, shop, RESERVE)


async def unreserve(ctx: Context[Work]) -> None:
    """Give the reservation back, if there is one."""
    await done(ctx, shop, RELEASE)


async def hold(ctx: Context[Work]) -> None:
    """Put aside, at a depot that can be asked what it has done."""
    await done(ctx, depot, HOLD)


async def unhold(ctx: Context[Work]) -> None:
    """Give back what was put aside, if it was."""
    await done(ctx, shop, DROP)


async def charge(ctx: Context[Work]) -> None:
    """Take the money, once: the pivot."""
    await done(ctx, bank, CHARGE)


async def deliver(ctx: Context[Work]) -> None:
    """Deliver: here the chunk only goes forward."""
    await done(ctx, shop, DELIVER)


saga = Pipeline(
    name="saga",
    payload=Work,
    stages=[
        Stage(quote),
        Stage(reserve, compensate=unreserve),
        Stage(hold, compensate=unhold),
        Stage(charge, pivot=True),
        Stage(deliver),
    ],
)
#: The pipelines, in the order in which jobs are made of them.
ALL = (joined, saga, plain)
