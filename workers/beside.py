"""Run a worker's side tasks: the health file, and ECS task protection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from piecework import telemetry
from piecework.pulse import write_health_file
from workers.ecs.agent import TIMEOUT_S
from workers.ecs.protection import AGENT, Protection
from workers.ecs.shield import ProtectionPolicy, draw_pause_interval
from workers.ecs.task import METADATA
from workers.station import WorkerServices
from workers.stop import Stop, log_signal


@asynccontextmanager
async def run_side_tasks(
    services: WorkerServices, stop: Stop, environ: Mapping[str, str]
) -> AsyncIterator[None]:
    """Run the side tasks while the caller's block runs; their failures do not stop it.

    Without a health file and without ECS they do nothing.
    """
    settings, log = services.rt.settings, services.log
    shield = ProtectionPolicy(draw_pause_interval(services.rt.rng))
    protection = Protection(environ.get(AGENT, ""), services, log, shield)
    final_tasks = [
        asyncio.create_task(protection.run(stop)),
        asyncio.create_task(log_signal(stop, environ.get(METADATA, ""), log)),
    ]
    showing = write_health_file(
        services.liveness, settings.health_file, settings.lease_s, log
    )
    tasks = [*final_tasks, asyncio.create_task(showing)]
    try:
        yield
    finally:
        stop.set()
        await asyncio.wait(final_tasks, timeout=TIMEOUT_S)
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
    for result in results:
        if isinstance(result, Exception):
            telemetry.emit(log, "worker.component_failed", error=type(result).__name__)
