"""Pipelines whose stages kill, fill or hang the process that they run in."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import time

from pydantic import BaseModel

from piecework import Context, Dependency, Effect, Pipeline, Stage, Usage
from piecework.llm import Model, ModelAnswer, ModelRequest
from tests.scenarios.pipelines import QUICK, Item, fixed, note

fax = Dependency("fax", retry=QUICK, effect=Effect.NON_IDEMPOTENT, timeout=2)
bank = Dependency("bank", retry=QUICK, effect=Effect.PROVIDER_IDEMPOTENT, timeout=2)
model = Dependency("model", retry=QUICK)


async def prepare(ctx: Context[Item]) -> list[int]:
    """Hand something on to the isolated stage."""
    return [ctx.payload.n, ctx.payload.n + 1]


def parse(ctx: Context[Item]) -> int:
    """Do what C code does that was not written for this input."""
    note("parse", ctx.chunk, ctx.attempt, os.getpid())
    match ctx.payload.trouble:
        case "exit":
            os._exit(3)
        case "segfault":
            ctypes.string_at(0)
        case "memory":
            bytearray(400 << 20)
        case "hang":
            # Holds the interpreter's lock: no thread of this process goes on.
            ctypes.PyDLL(None).sleep(60)
    return sum(ctx.result(prepare))


def unparse(ctx: Context[Item]) -> None:
    """Undo, or kill the process again."""
    note("unparse", ctx.chunk)
    if ctx.payload.trouble == "segfault":
        os.kill(os.getpid(), signal.SIGSEGV)


fragile = Pipeline(
    name="fragile",
    payload=Item,
    stages=[
        Stage(prepare),
        Stage(
            parse,
            compensate=unparse,
            undo_if_failed=True,
            isolate=True,
            memory_mb=200,
        ),
    ],
)


async def transfer(n: int, *, idempotency_key: str) -> str:
    """Have an effect, and die of it before the caller is told."""
    note("transfer", n, idempotency_key)
    if not fixed():
        os.kill(os.getpid(), signal.SIGKILL)
    return f"transfer {n}"


async def look(n: int, *, idempotency_key: str) -> int:
    """Be a paid model call."""
    note("look", n, idempotency_key)
    await asyncio.sleep(0.01)
    return n * 2


async def pay(ctx: Context[Item]) -> str:
    """Look three times, then pay in the way that the payload names."""
    seen = await asyncio.gather(*[ctx.call(model, look, n) for n in range(3)])
    service = fax if ctx.payload.trouble == "fax" else bank
    return await ctx.call(service, transfer, ctx.payload.n) + f" {sum(seen)}"


paying = Pipeline(name="paying", payload=Item, stages=[Stage(pay, isolate=True)])


def block(ctx: Context[Item]) -> int:
    """Block for as long as the payload says, where no thread can be cut off."""
    note("block", ctx.chunk, os.getpid())
    time.sleep(ctx.payload.seconds)
    note("blocked", ctx.chunk)
    return os.getpid()


waiting = Pipeline(name="waiting", payload=Item, stages=[Stage(block, isolate=True)])


async def nap(ctx: Context[Item]) -> None:
    """Take the time that the payload says."""
    note("nap", ctx.chunk)
    await asyncio.sleep(ctx.payload.seconds)


napping = Pipeline(name="napping", payload=Item, stages=[Stage(nap)])


# ── an answer that does not fit ──────────────────────────────────────────────


class Score(BaseModel):
    points: int


async def say(request: ModelRequest) -> ModelAnswer:
    """Answer with a word where a number was asked for."""
    note("say", request.text)
    return ModelAnswer('{"points": "many"}')


judge = Model("judge", say, repairs=0)


async def judge_one(ctx: Context[Item]) -> int:
    """Ask for a score."""
    return (
        await judge.ask("Score this.", f"text {ctx.payload.n}", returns=Score)
    ).points


judging = Pipeline("judging", payload=Item, stages=[Stage(judge_one, isolate=True)])


# ── calls whose usage is known ──────────────────────────────────────────────

meter = Dependency("meter", usage=lambda _: Usage(7, 3), estimate=lambda *_: 10)


async def measure(n: int, *, idempotency_key: str) -> int:
    """Answer a call that has a price."""
    note("measure", n, idempotency_key)
    return n


async def meter_all(ctx: Context[Item]) -> list[int]:
    """Make the chunk's calls, one after another."""
    return [
        await ctx.call(meter, measure, 100 * ctx.payload.n + i)
        for i in range(ctx.payload.calls)
    ]


metered = Pipeline("metered", payload=Item, stages=[Stage(meter_all, isolate=True)])
