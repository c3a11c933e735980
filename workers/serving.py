"""Be one worker process: receive and execute, with a reconciler beside it."""

from __future__ import annotations

import asyncio

from piecework.reconcile import reconcile_for_ever
from workers.station import Station
from workers.worker import work


async def serve(station: Station, stop: asyncio.Event, *, reconcile: bool) -> None:
    """Be a worker until `stop` is set.

    Raises:
        Exception: What ended one of its loops.
    """
    side = asyncio.create_task(
        reconcile_for_ever(
            station.rt, station.log, station.busy, station.take, station.pulse
        )
        if reconcile
        else stop.wait()
    )
    try:
        await work(station, stop)
    finally:
        side.cancel()
        await asyncio.gather(side, return_exceptions=True)
