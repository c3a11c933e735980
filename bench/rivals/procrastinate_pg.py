"""procrastinate on PostgreSQL, with a task for each unit of work.

The setup follows its documentation:
- basics/batch_defer: many jobs are deferred in batches (here 500 a statement).
- basics/worker and concurrency: one asynchronous worker, `concurrency` tasks at once.
  LISTEN/NOTIFY reports new jobs to it (the default).
- production/retry_stalled_jobs: a periodic task retries the tasks of dead workers.
  The page runs it every ten minutes and waits 30 s for a heartbeat. Here it runs every
  second. Heartbeat, patience and pruning follow the lease of the driver's request,
  because that page says to change them together. Its priority is above that of the
  others, so that it does not wait for the backlog.
- advanced/retry: a failed call or chunk is tried again at once, five times.
- production/migrations: `apply_schema`, in a PostgreSQL schema of this run's own.
The rest are defaults: finished jobs stay in the table.
"""

from __future__ import annotations

import asyncio
import time

import procrastinate
import protocol
import psycopg

BATCH = 500


def app_of(config: protocol.Config) -> procrastinate.App:
    """Open the application on this run's own schema."""
    options = {"options": f"-c search_path={schema_of(config)}"}
    connector = procrastinate.PsycopgConnector(conninfo=config.dsn, kwargs=options)
    return procrastinate.App(connector=connector)


def schema_of(config: protocol.Config) -> str:
    """Name the PostgreSQL schema of this run."""
    return "".join(each if each.isalnum() else "_" for each in config.queue.lower())


def setup(config: protocol.Config) -> None:
    """Make the schema and its tables."""
    with psycopg.connect(config.dsn, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema_of(config)}")
    app = app_of(config)
    with app.open():
        app.schema_manager.apply_schema()


def enqueue(config: protocol.Config) -> str:
    """Defer every task."""
    app = app_of(config)
    task = app.configure_task("perform", queue=config.queue)
    names = config.tasks
    with app.open():
        begun = time.monotonic()
        for first in range(0, len(names), BATCH):
            batch = names[first : first + BATCH]
            task.batch_defer(*({"name": name} for name in batch))
        return protocol.submitted(len(names), time.monotonic() - begun)


def work(config: protocol.Config) -> None:
    """Be one worker."""
    asyncio.run(run(config))


async def run(config: protocol.Config) -> None:
    """Register the tasks and run the worker until a signal stops it."""
    app, tasks = app_of(config), protocol.Tasks(config)
    at_once = procrastinate.RetryStrategy(max_attempts=5)

    @app.task(name="perform", queue=config.queue, retry=at_once)
    async def perform(name: str) -> None:
        await tasks.aperform(name)

    @app.periodic(cron="* * * * * *")
    @app.task(queue=config.queue, queueing_lock="stalled", priority=10)
    async def retry_stalled_jobs(**_timestamp: int) -> None:
        manager = app.job_manager
        patience = config.visibility_s
        for job in await manager.get_stalled_jobs(seconds_since_heartbeat=patience):
            await manager.retry_job(job)

    async with app.open_async():
        tasks.ledger.ready()
        await app.run_worker_async(
            queues=[config.queue],
            concurrency=config.concurrency,
            update_heartbeat_interval=config.visibility_s / 5,
            stalled_worker_timeout=config.visibility_s,
        )


def teardown(config: protocol.Config) -> None:
    """Drop the schema and its contents."""
    with psycopg.connect(config.dsn, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA {schema_of(config)} CASCADE")


if __name__ == "__main__":
    protocol.main(setup, enqueue, work, teardown)
