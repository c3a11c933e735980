"""A pipeline that leaks in every way that a stage can: loaded by the true worker.

What it leaks is planted in its payloads and its environment; see `canaries.py`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import threading

from pydantic import BaseModel

from piecework import (
    Context,
    Dependency,
    Effect,
    PermanentError,
    Pipeline,
    Results,
    RetryPolicy,
    Stage,
    TransientError,
)

ONCE = RetryPolicy(attempts=2, base=0.01, cap=0.02)
model = Dependency("model", retry=ONCE, layer="llm")
shop = Dependency("shop", retry=ONCE, effect=Effect.PROVIDER_IDEMPOTENT)


WAYS = (
    *("value", "ours", "undo", "transient", "key", "notes", "cause", "group"),
    *("validation", "json", "model", "answer", "result", "upper", "split"),
    *("environment", "task", "thread", "log", "memory", "none"),
)


class Leak(BaseModel):
    """A chunk: what it is to leak, and how."""

    way: str
    prose: str
    secret: str
    inner: dict[str, str] = {}


class Strict(BaseModel):
    """What no leak fits."""

    number: int


class ProviderError(Exception):
    """A provider's answer, with its body and its address in the message."""

    def __init__(self, message: str, body: object) -> None:
        super().__init__(message)
        self.status_code = 400
        self.headers: dict[str, str] = {}
        self.body = body


async def ask(prompt: str, *, idempotency_key: str) -> str:
    """Be a provider that quotes what it was asked, and where."""
    del idempotency_key
    url = f"https://api.example/v1/x?prompt={prompt}&signature={prompt[-24:]}"
    message = f"400 for {url}: invalid prompt {prompt!r}"
    raise ProviderError(message, {"error": {"type": prompt, "code": prompt}})


async def answer(prompt: str, *, idempotency_key: str) -> str:
    """Be a provider that answers with something as secret."""
    del idempotency_key
    return f"the answer to {prompt} is {prompt[::-1]}"


async def do(prompt: str, *, idempotency_key: str) -> str:
    """Be an effect."""
    del prompt
    return idempotency_key[:8]


async def undo(ctx: Context[Leak]) -> None:
    """Fail at undoing, and quote everything."""
    if ctx.payload.way == "undo":
        raise ValueError(f"cannot undo {ctx.payload.prose} {ctx.payload.secret}")


async def first(ctx: Context[Leak]) -> str:
    """Do something that can be undone, and return what is secret."""
    await ctx.call(shop, do, ctx.payload.secret)
    return f"{ctx.payload.prose}|{ctx.payload.secret}"


async def second(ctx: Context[Leak]) -> str:  # noqa: C901, PLR0912, PLR0915 -- a way a case
    """Leak."""
    leak, said = ctx.payload, f"{ctx.payload.prose} {ctx.payload.secret}"
    match leak.way:
        case "value":
            raise ValueError(f"cannot parse {said!r}")
        case "ours" | "undo":
            raise PermanentError(f"no clause in {said}", code="tool.clause.none")
        case "transient":
            raise TransientError(
                f"not now: {said}", code="tool.x.message_received", retry_after=0.0
            )
        case "key":
            raise KeyError(leak.secret, leak.prose)
        case "notes":
            error = RuntimeError("it failed")
            error.add_note(said)
            raise error
        case "cause":
            try:
                raise ValueError(said)
            except ValueError as cause:
                raise RuntimeError(f"because of {cause}") from cause
        case "group":
            raise ExceptionGroup(said, [ValueError(said), OSError(5, said, said)])
        case "validation":
            Strict.model_validate({"number": said, leak.secret: said})
        case "json":
            json.loads(f"{{{said}")
        case "model":
            await ctx.call(model, ask, f"Summarise: {said}")
        case "answer":
            found = await ctx.call(model, answer, said)
            raise ValueError(f"cannot use {found}")
        case "result":
            raise ValueError(f"unlike {ctx.result(first)}")
        case "upper":
            raise ValueError(f"IN CAPITALS {said.upper()}")
        case "split":
            raise ValueError(f"by lines: {' / '.join(said.split())}")
        case "environment":
            raise ValueError(f"token {os.environ['CANARY_API_TOKEN']} is bad")
        case "task":
            _TASKS.add(asyncio.get_running_loop().create_task(fail(said)))
            await asyncio.sleep(0.01)
            _TASKS.clear()
        case "thread":
            thread = threading.Thread(target=fail_plainly, args=(said,))
            thread.start()
            await asyncio.to_thread(thread.join)
        case "log":
            logging.getLogger("some.library").warning("bad answer: %s", leak.secret)
        case "memory":
            raise MemoryError(said)
        case _:
            return said
    return "done"


_TASKS: set[asyncio.Task[None]] = set()


async def fail(said: str) -> None:
    """Fail in a task that no code awaits."""
    raise ValueError(said)


def fail_plainly(said: str) -> None:
    """Fail in a thread."""
    raise ValueError(said)


async def total(ctx: Results) -> str:
    """Fail, and quote the results."""
    said = [str(result.value) async for result in ctx]
    raise ValueError(f"cannot join {said}")


def pipeline(name: str, *, isolate: bool) -> Pipeline:
    """Return the pipeline, its second stage here or in a process of its own."""
    return Pipeline(
        name=name,
        payload=Leak,
        stages=[Stage(first, compensate=undo), Stage(second, isolate=isolate)],
        join=total,
        label=lambda leak: leak.way,
    )


leaky = pipeline("leaky", isolate=False)
leaky_apart = pipeline("leaky-apart", isolate=True)
