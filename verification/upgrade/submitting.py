"""Submit a job for each line on stdin, `NAME CHUNKS`, with the code that lies here."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator

from piecework.domain.chunk_input import ChunkInput
from piecework.domain.refs import JobRef
from piecework.runtime import connect
from piecework.settings import load_settings
from piecework_orchestrator.submit.submit import Submission, submit
from tests.scenarios.pipelines import Item, counting


async def submit_each() -> None:
    """Submit until there is no further line; say each job's name once it is there."""
    async with connect(load_settings()) as rt:
        while line := await asyncio.to_thread(sys.stdin.readline):
            job, chunks = line.split()
            asked = Submission(JobRef("default", job), counting, "upgrade", "tester")
            await submit(rt, asked, inputs(int(chunks)))
            sys.stdout.write(f"{job}\n")
            sys.stdout.flush()


async def inputs(chunks: int) -> AsyncIterator[ChunkInput]:
    """Yield so many chunks, each with a call."""
    for number in range(chunks):
        item = Item(n=number, calls=1)
        yield ChunkInput(f"item {number}", item.model_dump_json().encode())


if __name__ == "__main__":
    asyncio.run(submit_each())
