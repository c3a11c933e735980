"""Celery on SQS, with kombu's own transport (pycurl).

Set up as Celery's documentation advises for work that waits for others and must not be
lost. That is `acks_late`, a pool of threads, and no results. SQS carries no remote
control and no events, so both are off. Prefetch is Celery's default: four times the
concurrency. Long polls last 20 s. The polling interval is 10 ms, not a second: kombu
sleeps a whole interval whenever the prefetch window is full. Its documentation also
offers 0, with which kombu spins. `autoretry_for` tries again what failed, without a
delay. Celery has no batched send and no batched delete.
"""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import urlsplit

import protocol
from celery import Celery, signals


def setup(config: protocol.Config) -> None:
    """Have Celery declare its queue."""
    app = application(config)
    with app.connection_for_write() as connection:
        declared(app, connection.default_channel)


def enqueue(config: protocol.Config) -> str:
    """Send one message for each task."""
    app = application(config)
    perform = register(app, protocol.Tasks(config))
    tasks = config.tasks
    with app.producer_pool.acquire(block=True) as producer:
        declared(app, producer.channel)
        begun = time.monotonic()
        for task in tasks:
            perform.apply_async((task,), producer=producer)
        return protocol.submitted(len(tasks), time.monotonic() - begun)


def work(config: protocol.Config) -> None:
    """Run a worker of one process."""
    app = application(config)
    tasks = protocol.Tasks(config)
    register(app, tasks)
    signals.worker_ready.connect(lambda **_: tasks.ledger.ready(), weak=False)
    app.worker_main(
        [
            "worker",
            "--pool=threads",
            f"--concurrency={config.concurrency}",
            "--loglevel=WARNING",
            "--without-gossip",
            "--without-mingle",
            "--without-heartbeat",
        ]
    )


def teardown(config: protocol.Config) -> None:
    """Delete the queue."""
    app = application(config)
    with app.connection_for_write() as connection:
        declared(app, connection.default_channel).delete()


def application(config: protocol.Config) -> Celery:
    """Return the application, its broker the endpoint."""
    app = Celery("bench", broker=f"sqs://{urlsplit(config.endpoint).netloc}")
    app.conf.update(
        task_default_queue=config.queue,
        task_acks_late=True,
        task_ignore_result=True,
        worker_enable_remote_control=False,
        worker_send_task_events=False,
        broker_connection_retry_on_startup=True,
        broker_transport_options={
            "region": config.region,
            "is_secure": False,
            "visibility_timeout": config.visibility_s,
            "wait_time_seconds": 20,
            "polling_interval": float(config.options.get("polling_interval", "0.01")),
        },
    )
    return app


def declared(app: Celery, channel: Any) -> Any:
    """Return the application's one queue, made when need be."""
    queue = app.amqp.queues[app.conf.task_default_queue].bind(channel)
    queue.declare()
    return queue


def register(app: Celery, tasks: protocol.Tasks) -> Any:
    """Return the task as Celery knows it."""

    @app.task(
        name="perform",
        autoretry_for=(protocol.CallFailedError,),
        default_retry_delay=0,
        max_retries=20,
    )
    def perform(task: str) -> None:
        tasks.perform(task)

    return perform


if __name__ == "__main__":
    protocol.main(setup, enqueue, work, teardown)
