"""PgQueuer on PostgreSQL, with a job for each unit of work.

The setup follows its documentation:
- getting-started: jobs are enqueued in batches (here 500 a statement). One asynchronous
  worker holds one connection; LISTEN/NOTIFY reports new jobs to it.
- guides/performance: `max_concurrent_tasks` is the concurrency. A batch is half of it,
  the most that it allows.
- guides/heartbeat: `heartbeat_timeout` returns the jobs of a dead worker. It is the
  lease of the driver's request.
- guides/retry: a failed call or chunk raises `RetryRequested`, and runs again at once.
- reference/cli: `install`, in a PostgreSQL schema of this run's own.
The rest are defaults: a finished job leaves the queue, and a line stays in the log
table. It has one record for each job, none for a call, and no end of a whole job.
"""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta

import protocol
import psycopg
from pgqueuer import PgQueuer
from pgqueuer.errors import RetryRequested
from pgqueuer.models import Job
from pgqueuer.queries import Queries

BATCH = 500


def schema_of(config: protocol.Config) -> str:
    """Name the PostgreSQL schema of this run."""
    return "".join(each if each.isalnum() else "_" for each in config.queue.lower())


async def opened(config: protocol.Config) -> psycopg.AsyncConnection:
    """Connect to this run's own schema."""
    return await psycopg.AsyncConnection.connect(
        config.dsn,
        autocommit=True,
        options=f"-c search_path={schema_of(config)}",
    )


def setup(config: protocol.Config) -> None:
    """Make the schema and its tables."""
    with psycopg.connect(config.dsn, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema_of(config)}")

    async def install() -> None:
        async with await opened(config) as connection:
            await Queries.from_psycopg_connection(connection).install()

    asyncio.run(install())


def enqueue(config: protocol.Config) -> str:
    """Enqueue every task."""
    return asyncio.run(enqueue_all(config))


async def enqueue_all(config: protocol.Config) -> str:
    """Enqueue every task in batches."""
    names = config.tasks
    async with await opened(config) as connection:
        queries = Queries.from_psycopg_connection(connection)
        begun = time.monotonic()
        for first in range(0, len(names), BATCH):
            batch = [name.encode() for name in names[first : first + BATCH]]
            jobs = len(batch)
            await queries.enqueue(["perform"] * jobs, batch, [0] * jobs)
        return protocol.submitted(len(names), time.monotonic() - begun)


def work(config: protocol.Config) -> None:
    """Be one worker."""
    asyncio.run(run(config))


async def run(config: protocol.Config) -> None:
    """Register the entrypoint and run the worker until a signal stops it."""
    tasks = protocol.Tasks(config)
    async with await opened(config) as connection:
        app = PgQueuer.from_psycopg_connection(connection)

        @app.entrypoint("perform")
        async def perform(job: Job) -> None:
            try:
                await tasks.aperform((job.payload or b"").decode())
            except protocol.CallFailedError as error:
                raise RetryRequested(reason=str(error)) from error

        tasks.ledger.ready()
        await app.run(
            batch_size=max(1, config.concurrency // 2),
            max_concurrent_tasks=max(2, config.concurrency),
            heartbeat_timeout=timedelta(seconds=config.visibility_s),
        )


def teardown(config: protocol.Config) -> None:
    """Drop the schema and its contents."""
    with psycopg.connect(config.dsn, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA {schema_of(config)} CASCADE")


if __name__ == "__main__":
    protocol.main(setup, enqueue, work, teardown)
