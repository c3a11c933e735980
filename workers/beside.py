"""What a worker's process does beside its work: health file, manners on ECS."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from piecework.pulse import show
from workers.ecs.agent import TIMEOUT_S
from workers.ecs.protection import AGENT, Protection
from workers.ecs.shield import Shield, until_breath
from workers.ecs.task import METADATA
from workers.station import Station
from workers.stop import Stop, tell_of_signal


@asynccontextmanager
async def beside(
    station: Station, stop: Stop, environ: Mapping[str, str]
) -> AsyncIterator[None]:
    """Do it while the work inside is done; what of it fails stops no work.

    Where nothing asks for it (no health file, no ECS) there is nothing to do.
    """
    settings, log = station.rt.settings, station.log
    shield = Shield(until_breath(station.rt.rng))
    protection = Protection(environ.get(AGENT, ""), station, log, shield)
    last_words = [
        asyncio.create_task(protection.run(stop)),
        asyncio.create_task(tell_of_signal(stop, environ.get(METADATA, ""), log)),
    ]
    showing = show(station.pulse, settings.health_file, settings.lease_s, log)
    tasks = [*last_words, asyncio.create_task(showing)]
    try:
        yield
    finally:
        stop.set()
        await asyncio.wait(last_words, timeout=TIMEOUT_S)
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
    for result in results:
        if isinstance(result, Exception):
            log.error("worker.side_failed", error=type(result).__name__)
