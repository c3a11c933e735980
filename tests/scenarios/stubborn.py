"""A pipeline whose stages do what keeps a process from its end."""

from __future__ import annotations

import asyncio
import atexit
import multiprocessing
import os
import signal
import threading
import time

from piecework import Context, Pipeline, Stage
from tests.scenarios.pipelines import Item, note

FOR_EVER_S = 300.0


def fork() -> int:
    """Fork, and let the fork go on for ever."""
    pid = os.fork()
    if pid == 0:
        time.sleep(FOR_EVER_S)
        os._exit(0)
    return pid


def make(trouble: str) -> None:
    """Do what the payload names."""
    match trouble:
        case "ignore":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        case "remove":
            loop = asyncio.get_running_loop()
            loop.add_signal_handler(signal.SIGHUP, print)
            loop.remove_signal_handler(signal.SIGHUP)
        case "thread":
            threading.Thread(target=time.sleep, args=(FOR_EVER_S,)).start()
        case "exit":
            atexit.register(time.sleep, FOR_EVER_S)
        case "process":
            spawn = multiprocessing.get_context("fork").Process
            kept = spawn(target=time.sleep, args=(FOR_EVER_S,))
            kept.start()
            note("fork", kept.pid)
        case "fork":
            note("fork", fork())


async def work(ctx: Context[Item]) -> int:
    """Make the trouble of the payload, say so, and stay."""
    trouble = ctx.payload.trouble
    make(trouble)
    note("began", trouble)
    if trouble == "block":
        time.sleep(FOR_EVER_S)  # noqa: ASYNC251 -- the mistake that is tried
    until = time.monotonic() + FOR_EVER_S
    while time.monotonic() < until:
        try:
            await asyncio.sleep(0.5)
        except BaseException:
            if trouble != "swallow":
                raise
    return ctx.payload.n


stubborn = Pipeline(name="stubborn", payload=Item, stages=[Stage(work)])
