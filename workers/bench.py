"""Run the stages of a claim: isolated stages in a child process, others in this one.

It also measures the duration of each stage. A stopping worker uses the durations to
decide which stages it waits for.
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
    """Run the stages of the claim that has this token."""

    token: str
    services: WorkerServices

    async def run(self, stage: Stage, ctx: Context[Any], variant: str = RUN) -> str:
        """Run one variant of a stage, or its compensation; return its value as JSON."""
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
