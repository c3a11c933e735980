"""A pipeline in which an input kills, blocks or interrupts the worker that runs it."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import threading
import time
from contextlib import suppress

from piecework import Context, Dependency, Pipeline, Stage
from tests.scenarios.pipelines import QUICK, Item, note

model = Dependency("model", retry=QUICK)

#: Seconds for which `block` keeps the event loop: longer than any lease of a test.
BLOCK_S = 120.0
#: Handles that a process may have and that `handles` keeps; and a stack that no process
#: has, so that no thread starts.
HANDLES = 200
LEAKED: list[int] = []
#: The tasks that `swallow` leaves.
LEFT: list[asyncio.Task[None]] = []
TOO_LARGE = 1 << 46


class PanicException(BaseException):
    """As pyo3 raises it where Rust code panics; it is not an Exception."""


async def ask(n: int, *, idempotency_key: str) -> int:
    """Simulate a paid call."""
    note("ask", n, idempotency_key)
    await asyncio.sleep(0.05)
    return n


async def work(ctx: Context[Item]) -> int:
    """Make one call, then the trouble of the payload."""
    note("work", ctx.chunk, os.getpid())
    answer = await ctx.call(model, ask, ctx.payload.n)
    await asyncio.sleep(ctx.payload.seconds)
    match ctx.payload.trouble:
        case "swallow" | "fork" | "ignore":
            leave_disorder(ctx.payload.trouble)
        case "kill":
            os.abort()
        case "block":
            time.sleep(BLOCK_S)  # noqa: ASYNC251 -- the mistake that is tried
        case "interrupt in a task":
            await asyncio.create_task(interrupted())
        case "panic":
            raise PanicException("called `Option::unwrap()` on a `None` value")
        case "poison":
            os.kill(os.getpid(), 9)
        case "handles":
            keep_handles()
        case "threads":
            threading.stack_size(TOO_LARGE)
            threading.Thread(target=print).start()
    return answer


def leave_disorder(trouble: str) -> None:
    """Leave a task that swallows its cancellation, a fork, or an ignored signal."""
    if trouble == "swallow":
        LEFT.append(asyncio.create_task(swallow()))
    elif trouble == "ignore":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    elif os.fork() == 0:
        time.sleep(BLOCK_S)
        os._exit(0)


async def swallow() -> None:
    """Go on whatever cancels it."""
    until = time.monotonic() + BLOCK_S
    while time.monotonic() < until:
        with suppress(BaseException):
            await asyncio.sleep(1)


def keep_handles() -> None:
    """Open files until the process may open no more, and keep them."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (HANDLES, most))
    while True:
        LEAKED.append(os.open(os.devnull, os.O_RDONLY))


def count(ctx: Context[Item]) -> int:
    """Need a thread of the worker."""
    return ctx.payload.n


async def interrupted() -> None:
    """Raise in a task of the stage's own: asyncio passes it on to the loop."""
    raise KeyboardInterrupt


guilty = Pipeline(name="guilty", payload=Item, stages=[Stage(work), Stage(count)])
