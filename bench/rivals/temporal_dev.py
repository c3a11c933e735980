"""Temporal on its dev server: a standalone activity, or a workflow per chunk.

Set up as its documentation says:
- W1, W3, W2a: a standalone activity per task (Python SDK, "Standalone Activities"):
  no workflow stands around a single activity. The client starts 32 at once.
- W2b: a workflow per chunk, which gathers an activity per call. The history has what
  an activity returned, so that no worker makes a call again that was paid for.
- Failure detection: `start_to_close_timeout` is the lease that the driver asks for, by
  which the server knows a dead worker's activity.
- Retry policy: the next attempt follows at once (the default waits a second).
- Worker performance: `max_concurrent_activities` is the concurrency that the driver
  asks for. Pollers scale by themselves, which is the recommended setting.
The bench makes the workflow tell the ledger of its begin and end. It does so outside
of the sandbox and not in a replay, which costs Temporal no event.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.common import RetryPolicy
from temporalio.service import RPCError
from temporalio.worker import PollerBehaviorAutoscaling, Worker

with workflow.unsafe.imports_passed_through():
    import protocol

STARTS_AT_ONCE = 32
AT_ONCE = RetryPolicy(initial_interval=timedelta(milliseconds=1), maximum_attempts=5)


@workflow.defn(name="chunk")
class Chunk:
    """A chunk: a retried activity per call, all at once or in turn."""

    @workflow.run
    async def run(
        self, name: str, calls: int, lease_s: int, ledger: str, order: str
    ) -> None:
        """Make every call; the worker bounds how many are in flight."""
        told = protocol.Ledger(ledger)
        note(told.start, name)
        lease = timedelta(seconds=lease_s)

        def call(number: int) -> Awaitable[object]:
            return workflow.execute_activity(
                "perform",
                f"{name}.{number}",
                start_to_close_timeout=lease,
                retry_policy=AT_ONCE,
            )

        if order == "in turn":
            for number in range(calls):
                await call(number)
        else:
            await asyncio.gather(*map(call, range(calls)))
        note(told.done, name)


def note(write: Callable[[str], None], name: str) -> None:
    """Record in the ledger, unless this is a replay."""
    if not workflow.unsafe.is_replaying():
        with workflow.unsafe.sandbox_unrestricted():
            write(name)


def setup(config: protocol.Config) -> None:
    """Wait until the server serves; namespace and task queues need no making."""
    asyncio.run(ready(config))


async def ready(config: protocol.Config) -> None:
    """Poll until the server answers."""
    until = time.monotonic() + 20
    while True:
        try:
            client = await Client.connect(config.address)
            await client.count_workflows()
        except (RPCError, RuntimeError):
            if time.monotonic() > until:
                raise
            await asyncio.sleep(0.1)
        else:
            return


def enqueue(config: protocol.Config) -> str:
    """Start every activity or workflow."""
    return asyncio.run(submit(config))


async def submit(config: protocol.Config) -> str:
    """Start every activity or workflow, some at once."""
    client = await Client.connect(config.address)
    gate, lease_s = asyncio.Semaphore(STARTS_AT_ONCE), config.visibility_s

    async def start(name: str) -> None:
        one, queue = f"{config.run}-{config.queue}-{name}", config.queue
        async with gate:
            if config.workload == "W2b":
                order = "in turn" if config.in_turn else "at once"
                words = [name, config.calls, lease_s, config.ledger, order]
                await client.start_workflow(
                    "chunk", args=words, id=one, task_queue=queue
                )
                return
            await client.start_activity(
                "perform",
                name,
                id=one,
                task_queue=queue,
                start_to_close_timeout=timedelta(seconds=lease_s),
                retry_policy=AT_ONCE,
            )

    begun = time.monotonic()
    await asyncio.gather(*(start(name) for name in config.tasks))
    return protocol.submitted(len(config.tasks), time.monotonic() - begun)


def work(config: protocol.Config) -> None:
    """Be one worker."""
    asyncio.run(run(config))


async def run(config: protocol.Config) -> None:
    """Run the worker until a signal stops it."""
    tasks, stopped = protocol.Tasks(config), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)

    @activity.defn(name="perform")
    async def perform(name: str) -> str:
        if config.workload == "W2b":
            (call,) = config.calls_of(name)
            return await tasks.acall(*call)
        await tasks.aperform(name)
        return ""

    worker = Worker(
        await Client.connect(config.address),
        task_queue=config.queue,
        workflows=[Chunk],
        activities=[perform],
        max_concurrent_activities=config.concurrency,
        workflow_task_poller_behavior=PollerBehaviorAutoscaling(),
        activity_task_poller_behavior=PollerBehaviorAutoscaling(),
    )
    async with worker:
        tasks.ledger.ready()
        await stopped.wait()


def teardown(config: protocol.Config) -> None:
    """Do nothing: the history keeps finished work until its retention ends."""


if __name__ == "__main__":
    protocol.main(setup, enqueue, work, teardown)
    sys.stderr.flush()
    os._exit(0)  # temporalio 1.35.0 may abort while the interpreter finalises
