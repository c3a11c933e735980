"""Where the stages of a claim run: in a child if they ask for it, else right here.

It also keeps the time, so that a stopping worker knows what is worth waiting for.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from piecework.context import Context
from piecework.pipeline import Stage
from piecework.stage_run import run_in_process
from piecework.ways import RUN
from workers.station import WorkerServices
from workers.timings import RunningStage


@dataclass(frozen=True, slots=True)
class WorkerStageRunner:
    """Runs the stages of the claim with this token."""

    token: str
    services: WorkerServices

    async def run(self, stage: Stage, ctx: Context[Any], variant: str = RUN) -> str:
        """Do a stage in one of its ways, or undo it; return its value as JSON."""
        services, now = self.services, asyncio.get_running_loop().time
        isolation = services.isolation if stage.isolate else None
        run = run_in_process if isolation is None else isolation.run
        under_way = RunningStage(ctx.pipeline.name, ctx.stage, now())
        services.running_stages[self.token] = under_way
        try:
            value = await run(stage, ctx, variant)
        finally:
            del services.running_stages[self.token]
        services.stage_durations.record(under_way, now())
        return value
