"""Where the stages of a claim run: in a child if they ask for it, else right here.

It also keeps the time, so that a stopping worker knows what is worth waiting for.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from piecework.context import Context
from piecework.pipeline import Stage
from piecework.stage_run import in_process
from piecework.ways import RUN
from workers.station import Station
from workers.timings import UnderWay


@dataclass(frozen=True, slots=True)
class WorkerBench:
    """Runs the stages of the claim with this token."""

    token: str
    station: Station

    async def run(self, stage: Stage, ctx: Context[Any], way: str = RUN) -> str:
        """Do a stage in one of its ways, or undo it; return its value as JSON."""
        station, now = self.station, asyncio.get_running_loop().time
        isolation = station.isolation if stage.isolate else None
        run = in_process if isolation is None else isolation.run
        under_way = UnderWay(ctx.pipeline.name, ctx.stage, now())
        station.under_way[self.token] = under_way
        try:
            value = await run(stage, ctx, way)
        finally:
            del station.under_way[self.token]
        station.timings.note(under_way, now())
        return value
