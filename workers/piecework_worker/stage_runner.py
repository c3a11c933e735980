"""Run the stages of a claim, in this process or in a child.

The stages of a suspect chunk run in a child. If they kill or block their process again,
the worker and its other chunks go on. The failure is then the chunk's own.

The runner also measures the duration of each stage. A stopping worker uses the
durations to decide which stages it waits for.
"""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from piecework import telemetry
from piecework.context import Context, Results, RunStage
from piecework.domain.protocols import CancelRequestedError, WaitRequestedError
from piecework.errors import WORKER_OUTAGES, StoreError, WorkerExhaustedError
from piecework.errors.classify import classify
from piecework.errors.location import raised_text
from piecework.pipelines import RUN, Stage
from piecework.saga.stage import run_in_process
from piecework_worker.exclusive_claims import ExclusiveClaims
from piecework_worker.isolation.pool import Isolation
from piecework_worker.lease import Lease
from piecework_worker.loop_watchdog import BlockedLoop
from piecework_worker.stage_durations import RunningStage, StageDurations

#: Deferrals of a chunk for want of resources before one spends its attempt, if no
#: child could run the chunk alone.
MOST_SHARED = 10


@dataclass(frozen=True, slots=True)
class StageRuns:
    """Where the stages of one worker run, and for how long.

    Attributes:
        isolation: Runs isolated stages; None: they run in this process.
        exclusive: Lets a suspect run alone that cannot run in a child.
        blocked_loop: Knows which stage runs on the event loop, and which stages have
            blocked it.
    """

    isolation: Isolation | None = None
    exclusive: ExclusiveClaims = field(default_factory=ExclusiveClaims)
    blocked_loop: BlockedLoop = field(default_factory=BlockedLoop)
    durations: StageDurations = field(default_factory=StageDurations)


@dataclass(frozen=True, slots=True)
class WorkerStageRunner:
    """Run the stages of a claim."""

    lease: Lease
    runs: StageRuns

    async def run(self, stage: Stage, ctx: Context[Any], variant: str = RUN) -> str:
        """Run one variant of a stage, or its compensation; return its value as JSON."""
        runs, now = self.runs, asyncio.get_running_loop().time
        run, claim = self.runner_of(stage, ctx), self.lease.claim
        alone = claim.is_suspect and run is run_in_process
        under_way = RunningStage(ctx.pipeline, ctx.stage, now())
        runs.durations.running[claim.token] = under_way
        code, outcome = "", "interrupted"
        try:
            with runs.blocked_loop.watch(stage, ctx):
                async with (
                    runs.exclusive.alone(self.lease.waiting) if alone else nullcontext()
                ):
                    value = await run(stage, ctx, variant)
            outcome = "returned"
        except (CancelRequestedError, WaitRequestedError):
            raise
        except Exception as error:
            # A function that was left for a wait or a cancel has not failed.
            left = CancelRequestedError | WaitRequestedError
            if not isinstance(ctx.caller.stop_reason, left):
                code, outcome = classify(error).code, "failed"
            own = isinstance(error, StoreError) or run is not run_in_process
            if code in WORKER_OUTAGES and not own and self.may_share():
                message = f"Stage {stage.name!r} {raised_text(error)}."
                raise WorkerExhaustedError(message, code=code) from error
            raise
        finally:
            del runs.durations.running[claim.token]
            telemetry.emit(
                ctx.log,
                "stage.ended",
                stage=stage.name,
                variant=variant,
                outcome=outcome,
                duration_ms=round((now() - under_way.started_at) * 1000),
                error_code=code,
            )
        runs.durations.record(under_way, now())
        return value

    def may_share(self) -> bool:
        """Return whether other chunks may have used up what the stage lacked.

        A join always shares the worker, so its deferrals have a limit.
        """
        return self.lease.claim.chunk.exhaustions < MOST_SHARED

    def runner_of(self, stage: Stage, ctx: Context[Any]) -> RunStage:
        """Return what runs the stage without harm to the worker's other chunks.

        A join runs in the worker, because it streams the results of its job.
        """
        isolation, loop = self.runs.isolation, self.runs.blocked_loop
        if isolation is None or isinstance(ctx, Results):
            return run_in_process
        if stage.isolate:
            return isolation.run
        blocks = (ctx.pipeline, stage.name) in loop.stages
        if blocks or self.lease.claim.is_suspect:
            fresh = self.lease.claim.chunk.exhaustions > 0
            waiting = self.lease.waiting
            return partial(isolation.run_suspect, waiting=waiting, fresh=fresh)
        return run_in_process
