"""DBOS on PostgreSQL: a workflow per piece of work, a retried step per call.

Set up as its documentation says:
- queue tutorial: a queue with the driver's `worker_concurrency`; a
  `DBOSClient` enqueues workflows, a hundred in a transaction
  (`enqueue_in_transaction`). A worker polls the queue every 50 ms. The default of
  1 s would limit a worker of 32 to 32 workflows a second.
- workflow tutorial: a chunk of calls is an asynchronous workflow that gathers its
  steps. Each call is a step, so a call that was paid for is not made again.
- step tutorial: `retries_allowed`, five attempts, the next one at once (the default
  waits a second). A semaphore inside the step bounds the calls in flight.
- configuration: `max_executor_threads` is the concurrency that the driver asks for. By
  default each of 2,552 steps that start at once takes a thread.
- recovery: a worker that starts with the executor id of a dead one goes on with its
  workflows at once. DBOS needs no lease for that.
A no-op or a sleep has nothing to keep: its workflow has no step.
"""

from __future__ import annotations

import asyncio
import signal
import time

import protocol
import psycopg
import sqlalchemy
from dbos import DBOS, DBOSClient, DBOSConfig

BATCH = 100
POLL_S = 0.05


def settings(config: protocol.Config) -> DBOSConfig:
    """Return the configuration of a DBOS process of this run."""
    return {
        "name": "rival",
        "system_database_url": config.dsn,
        "dbos_system_schema": schema_of(config),
        "application_version": "1",
        "executor_id": "worker",
        "log_level": "ERROR",
        "max_executor_threads": config.concurrency,
    }


def schema_of(config: protocol.Config) -> str:
    """Name the PostgreSQL schema of this run."""
    return "".join(each if each.isalnum() else "_" for each in config.queue.lower())


def setup(config: protocol.Config) -> None:
    """Make the system tables and register the queue."""
    DBOS(config=settings(config))
    DBOS.listen_queues([])
    DBOS.launch()
    DBOS.register_queue(
        config.queue,
        worker_concurrency=config.concurrency,
        polling_interval_sec=POLL_S,
    )
    DBOS.destroy()


def enqueue(config: protocol.Config) -> str:
    """Enqueue every workflow, a hundred in a transaction."""
    schema = schema_of(config)
    client = DBOSClient(system_database_url=config.dsn, dbos_system_schema=schema)
    address = config.dsn.replace("postgresql://", "postgresql+psycopg://", 1)
    engine = sqlalchemy.create_engine(address)
    names = config.tasks
    begun = time.monotonic()
    for first in range(0, len(names), BATCH):
        with engine.begin() as connection:
            for name in names[first : first + BATCH]:
                client.enqueue_in_transaction(
                    connection,
                    {"queue_name": config.queue, "workflow_name": "perform"},
                    name,
                )
    answer = protocol.submitted(len(names), time.monotonic() - begun)
    client.destroy()
    return answer


def work(config: protocol.Config) -> None:
    """Be one worker, until a signal ends it."""
    signals = [signal.SIGTERM, signal.SIGINT]
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    DBOS(config=settings(config))
    tasks = protocol.Tasks(config)
    gate = asyncio.Semaphore(config.concurrency)

    @DBOS.step(retries_allowed=True, max_attempts=5, interval_seconds=0)
    async def call(chunk: int, number: int) -> str:
        async with gate:
            return await tasks.acall(chunk, number)

    @DBOS.workflow(name="perform")
    async def perform(name: str) -> None:
        if not config.workload.startswith("W2"):
            await tasks.aperform(name)
            return
        tasks.ledger.start(name)
        await tasks.each_call(name, call)
        tasks.ledger.done(name)

    DBOS.launch()
    tasks.ledger.ready()
    signal.sigwait(signals)
    DBOS.destroy()


def teardown(config: protocol.Config) -> None:
    """Drop the schema with all that is in it."""
    with psycopg.connect(config.dsn, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA {schema_of(config)} CASCADE")


if __name__ == "__main__":
    protocol.main(setup, enqueue, work, teardown)
