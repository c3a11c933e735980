"""SAQ on Redis, its documentation's first choice: a job per piece of work.

Set up as its documentation says:
- getting_started: hiredis is installed; a `Queue.from_url`, and one `Worker` with this
  function and this concurrency.
- job: jobs are enqueued concurrently; the queue lets twenty through at once.
- task: `retries` gives a failed call or chunk five attempts, at once (`retry_delay` is
  0 by default). A sweep knows a dead worker's job by `timeout` (10 s by default). It
  is the lease that the driver asks for, and a minute for a chunk of calls.
- Worker: the `sweep` timer (60 s by default) follows the lease. SAQ could not take over
  within it otherwise. A sweep waits up to 5 s for each dead job to answer, one by one.
The rest are defaults: results are kept for 600 s.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

import protocol
from saq import Queue, Worker

CHUNK_S = 60


def queue_of(config: protocol.Config) -> Any:
    """Open this run's queue."""
    return Queue.from_url(config.redis, name=config.queue)


def setup(config: protocol.Config) -> None:
    """Do nothing: the first use creates the queue."""


def enqueue(config: protocol.Config) -> str:
    """Enqueue every task."""
    return asyncio.run(submit(config))


async def submit(config: protocol.Config) -> str:
    """Enqueue every task, with the queue's maximum concurrency."""
    queue = queue_of(config)
    timeout = CHUNK_S if config.workload == "W2b" else config.visibility_s
    rules = {"timeout": timeout, "retries": 5}
    begun = time.monotonic()
    await asyncio.gather(
        *(queue.enqueue("perform", name=name, **rules) for name in config.tasks)
    )
    answer = protocol.submitted(len(config.tasks), time.monotonic() - begun)
    await queue.disconnect()
    return answer


def work(config: protocol.Config) -> None:
    """Be one worker."""
    asyncio.run(run(config))


async def run(config: protocol.Config) -> None:
    """Run the worker until a signal stops it."""
    tasks, queue = protocol.Tasks(config), queue_of(config)

    async def perform(_: dict[str, Any], *, name: str) -> None:
        await tasks.aperform(name)

    async def startup(_: dict[str, Any]) -> None:
        tasks.ledger.ready()

    worker = Worker(
        queue,
        functions=[("perform", perform)],
        concurrency=config.concurrency,
        startup=startup,
        timers={"sweep": config.visibility_s},
    )
    await worker.start()
    await queue.disconnect()


def teardown(config: protocol.Config) -> None:
    """Remove every key of this run."""
    asyncio.run(remove(config))


async def remove(config: protocol.Config) -> None:
    """Remove every key that has this run's queue in its name."""
    queue = queue_of(config)
    async for key in queue.redis.scan_iter(match=f"saq:*{config.queue}:*", count=1000):
        await queue.redis.unlink(key)
    await queue.disconnect()


if __name__ == "__main__":
    protocol.main(setup, enqueue, work, teardown)
