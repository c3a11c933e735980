"""A pipeline for a real child: stages that start processes, and one that leaks."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import subprocess
import threading
import time
from pathlib import Path

from pydantic import BaseModel

from piecework.context import Context
from piecework.pipelines import Pipeline, Stage

LEAKED: list[bytearray] = []


class Paper(BaseModel):
    """Something to read."""

    text: str = "text"


def read(_: Context[Paper]) -> int:
    """Start a process, end it as a process pool does, and return how it ended."""
    process = multiprocessing.get_context("fork").Process(target=time.sleep, args=(5,))
    process.start()
    process.terminate()
    process.join()
    return process.exitcode or 0


def convert(ctx: Context[Paper]) -> None:
    """Wait for a program that hangs, or be killed beside it."""
    program = subprocess.Popen(["/bin/sleep", "60"])
    Path(ctx.payload.text).write_text(str(program.pid))
    if ctx.attempt > 1:
        os._exit(3)
    program.wait()


def leak(_: Context[Paper]) -> int:
    """Keep forty megabytes of the sixty that it may take, and say where."""
    LEAKED.append(bytearray(40 << 20))
    return os.getpid()


async def meet(_: Context[Paper]) -> int:
    """Make forty blocking calls that end only if all of them run at once."""
    meeting = threading.Barrier(40, timeout=5)
    calls = (asyncio.to_thread(meeting.wait) for _ in range(meeting.parties))
    return len(await asyncio.gather(*calls))


forking = Pipeline(
    "forking",
    payload=Paper,
    stages=[
        Stage(read, isolate=True),
        Stage(convert, isolate=True),
        Stage(leak, isolate=True, memory_mb=60),
        Stage(meet, isolate=True),
    ],
)
