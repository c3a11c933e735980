"""Estimate the finish time of five workloads at half of their chunks, in virtual time.

Each is a job that real workers run; the true end is known afterwards.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Final

from pydantic import BaseModel

from piecework import Context, Dependency, Limits, Pipeline, Stage, TransientError
from piecework_orchestrator.reading.job_documents import explain
from verification.drill.fleet import REF, Fleet, exercise


class Load(BaseModel):
    """A chunk: how long its stage takes, what it calls, and whether it fails first."""

    seconds: float = 0.0
    calls: int = 0
    fails: bool = False


metered = Dependency("metered", limits=Limits(requests_per_minute=120))


@metered.call
async def look_up(n: int) -> int:
    """Answer after a second."""
    await asyncio.sleep(1.0)
    return n


async def spend(ctx: Context[Load]) -> int:
    """Take the time, and make the calls, of the load."""
    load = ctx.payload
    await asyncio.sleep(load.seconds)
    if load.fails and ctx.attempt == 1:
        raise TransientError("Not now.", code="tool.http.500_x")
    for call in range(load.calls):
        await look_up(ctx.chunk * 100 + call)
    return 0


loads = Pipeline("loads", payload=Load, stages=[Stage(spend)])


@dataclass(frozen=True, slots=True)
class Workload:
    """A job and its workers.

    Attributes:
        workers: The workers at the start; `later` more join at three tenths.
    """

    name: str
    chunks: int
    load: Callable[[Random], Load]
    workers: int = 2
    later: int = 0


WORKLOADS: Final = (
    Workload("even", 240, lambda _: Load(seconds=20.0)),
    Workload("long tail", 300, lambda r: Load(seconds=8 * r.lognormvariate(0, 0.8))),
    Workload("limited", 240, lambda r: Load(seconds=r.uniform(0, 4), calls=3)),
    Workload(
        "failing",
        300,
        lambda r: Load(seconds=r.uniform(4, 16), fails=r.random() < 0.15),
    ),
    Workload(
        "growing", 320, lambda r: Load(seconds=r.uniform(5, 25)), workers=1, later=1
    ),
)


@dataclass(frozen=True, slots=True)
class Estimated:
    """An estimate at half of the chunks, and the truth."""

    p50_s: float
    p90_s: float
    truth_s: float

    @property
    def error(self) -> float:
        """By which part of the rest P50 was wrong."""
        return abs(self.p50_s - self.truth_s) / self.truth_s


def estimated(workload: Workload, seed: int = 1) -> Estimated:
    """Return the estimate of a workload."""

    async def act(fleet: Fleet) -> Estimated:
        rng = Random(seed)
        for _ in range(workload.workers):
            fleet.worker(loads, max_chunks=8, quota_wait_s=300.0)
        items = [workload.load(rng) for _ in range(workload.chunks)]
        done = await fleet.driver.submit(REF, loads, items, mortal=False)
        assert done == "done", done
        if workload.later:
            await wait_for_end(fleet, round(0.3 * workload.chunks))
            for _ in range(workload.later):
                fleet.worker(loads, max_chunks=8, quota_wait_s=300.0)
        await wait_for_end(fleet, workload.chunks // 2)
        now = fleet.rt.clock()
        found = (await explain(fleet.rt, await fleet.job()))["finish"]
        await wait_for_end(fleet, workload.chunks)
        truth_s = fleet.rt.clock() - now
        return Estimated(found["p50_s"], found["p90_s"], truth_s)

    return exercise(act)


async def wait_for_end(fleet: Fleet, number: int) -> None:
    """Wait until so many chunks have ended."""
    while True:
        job = await fleet.job()
        if await fleet.rt.tallies.count_ended(REF, job.chunks) >= number:
            return
        await asyncio.sleep(0.5)
