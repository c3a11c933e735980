"""Pipelines whose one call has an effect on a service that does not listen yet."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace

from piecework import CircuitBreaker, Context, Dependency, Effect, Pipeline, Stage
from tests.scenarios.pipelines import QUICK, Item

OFTEN = CircuitBreaker(open_s=1.0, max_open_s=2.0)
fax = Dependency(
    "fax", retry=QUICK, effect=Effect.NON_IDEMPOTENT, timeout=5.0, breaker=OFTEN
)


async def dial(n: int, *, idempotency_key: str) -> str:
    """Connect to the service, and let it write the key into its book."""
    port = int(os.environ["SCENARIO_PORT"])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"{n} {idempotency_key}\n".encode())
    answer = await reader.readline()
    writer.close()
    return answer.decode().strip()


async def send(ctx: Context[Item]) -> str:
    """Send one fax."""
    return await ctx.call(fax, dial, ctx.payload.n)


async def send_rarely(ctx: Context[Item]) -> str:
    """Send one fax by a dependency without a breaker."""
    return await ctx.call(replace(fax, breaker=None), dial, ctx.payload.n)


dialling = Pipeline(name="dialling", payload=Item, stages=[Stage(send)])
unguarded = Pipeline(name="unguarded", payload=Item, stages=[Stage(send_rarely)])
isolated = Pipeline(
    name="isolated", payload=Item, stages=[Stage(send, isolate=True, memory_mb=400)]
)
