"""A bare asyncio loop: the floor of W2b on this machine, without a queue or a record.

It waits for a file with the tasks, then makes all calls in one process, so many at a
time. A call that fails is made again at once. It has the tries of every other system.
Nothing survives a kill, so it runs no other workload.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import protocol

#: Seconds between two looks at the file.
LOOK_S = 0.001


def setup(config: protocol.Config) -> None:
    """Remove the file of an earlier run."""
    place(config).unlink(missing_ok=True)


def enqueue(config: protocol.Config) -> str:
    """Write the file."""
    begun = time.monotonic()
    fresh = place(config).with_suffix(".new")
    fresh.write_text("\n".join(config.tasks))
    fresh.rename(place(config))
    return protocol.submitted(len(config.tasks), time.monotonic() - begun)


def work(config: protocol.Config) -> None:
    """Wait for the file, and do its tasks."""
    asyncio.run(do_all(config))


async def do_all(config: protocol.Config) -> None:
    """Do all tasks at once, with so many calls in flight."""
    tasks = protocol.Tasks(config)
    tasks.ledger.ready()
    while not place(config).exists():  # noqa: ASYNC110 -- a file sets no event
        await asyncio.sleep(LOOK_S)
    gate = asyncio.Semaphore(config.concurrency)

    async def call(chunk: int, number: int) -> None:
        async with gate:
            try:
                await tasks.acall(chunk, number)
            except protocol.CallFailedError:
                await tasks.acall(chunk, number)

    async def do(task: str) -> None:
        tasks.ledger.start(task)
        await tasks.each_call(task, call)
        tasks.ledger.done(task)

    await asyncio.gather(*map(do, place(config).read_text().split()))


def place(config: protocol.Config) -> Path:
    """Return the file of the tasks."""
    return Path(f"{config.ledger}.tasks")


def teardown(config: protocol.Config) -> None:
    """Remove the file."""
    place(config).unlink(missing_ok=True)


if __name__ == "__main__":
    protocol.main(setup, enqueue, work, teardown)
