"""Run one worker process: the worker, with a reconciler beside it."""

from __future__ import annotations

import asyncio

from piecework.reconcile import reconcile_for_ever
from workers.station import WorkerServices
from workers.worker import run_worker


async def serve(
    services: WorkerServices, stop: asyncio.Event, *, reconcile: bool
) -> None:
    """Run a worker until `stop` is set.

    Raises:
        Exception: The error that ended one of the worker's loops.
    """
    side = asyncio.create_task(
        reconcile_for_ever(
            services.rt,
            services.log,
            services.message_received,
            services.offer_chunk,
            services.liveness,
        )
        if reconcile
        else stop.wait()
    )
    try:
        await run_worker(services, stop)
    finally:
        side.cancel()
        await asyncio.gather(side, return_exceptions=True)
