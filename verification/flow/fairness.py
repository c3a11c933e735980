"""How jobs share workers, in virtual time: real workers, submits and reconcilers.

A chunk takes some seconds and makes no call. AWS is the model of the simulator, which
answers within milliseconds.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from pydantic import BaseModel

from piecework import Context, Pipeline, Stage
from piecework.domain.priority import Priority
from piecework.domain.refs import JobRef
from tests.unit.orchestrator.simulated import Simulated, simulate

R = TypeVar("R")

SMALL: Final = 20
#: 5,000 chunks, because 50,000 take minutes to simulate. Most of them are left
#: when the small job starts, so more would change nothing.
LARGE: Final = 2_000
WORKERS: Final = 2
CHUNK_S: Final = 10.0
#: Virtual seconds for which the shares are counted.
SHARED_S: Final = 300.0


class Part(BaseModel):
    """A chunk of a job."""

    job: str


@dataclass(slots=True)
class Starts:
    """The starts of chunks, by job, in their order."""

    jobs: list[str] = field(default_factory=list)

    async def run(self, ctx: Context[Part]) -> int:
        """Be the stage."""
        self.jobs.append(ctx.payload.job)
        await asyncio.sleep(CHUNK_S)
        return 1


async def submit(
    sim: Simulated,
    pipeline: Pipeline,
    job: str,
    chunks: int,
    priority: Priority = Priority.NORMAL,
) -> JobRef:
    """Submit a job of this name."""
    ref = JobRef("default", job)
    parts = [Part(job=job)] * chunks
    more: dict[str, Any] = {"priority": priority, "mortal": False}
    assert await sim.fleet.submit(ref, pipeline, parts, **more) == "done"
    return ref


async def ended(sim: Simulated, ref: JobRef) -> None:
    """Wait until a job has ended."""
    while True:
        job = await sim.rt.jobs.read(ref)
        if job is not None and job.status.ended:
            return
        await asyncio.sleep(0.1)


def beside(
    act: Callable[[Simulated, Pipeline, Starts], Awaitable[R]], seed: int = 1
) -> R:
    """Run an act beside a fleet."""
    starts = Starts()
    pipeline = Pipeline("sharing", payload=Part, stages=[Stage(starts.run)])
    return simulate(
        lambda sim: act(sim, pipeline, starts), [pipeline], workers=WORKERS, seed=seed
    )


async def small_job_s(sim: Simulated, pipeline: Pipeline) -> float:
    """Return the seconds of a small job."""
    began = asyncio.get_running_loop().time()
    await ended(sim, await submit(sim, pipeline, "small", SMALL))
    return asyncio.get_running_loop().time() - began


def small_beside_large(seed: int = 1) -> float:
    """Return the time of a small job beside a large one, by its time alone."""

    async def alone(sim: Simulated, pipeline: Pipeline, _: Starts) -> float:
        return await small_job_s(sim, pipeline)

    async def together(sim: Simulated, pipeline: Pipeline, starts: Starts) -> float:
        await submit(sim, pipeline, "large", LARGE)
        await asyncio.sleep(SHARED_S)
        return await small_job_s(sim, pipeline)

    return beside(together, seed) / beside(alone, seed)


def shares(jobs: Sequence[tuple[str, Priority]]) -> Counter[str]:
    """Return how many chunks of each large job start in the same time."""

    async def act(sim: Simulated, pipeline: Pipeline, starts: Starts) -> Counter[str]:
        for name, priority in jobs:
            await submit(sim, pipeline, name, LARGE, priority)
        await asyncio.sleep(SHARED_S)
        return Counter(starts.jobs)

    return beside(act)


def low_not_started_percent() -> float:
    """Return the share of two jobs with priority `high` beside one with `low`."""
    jobs = [("low", Priority.LOW), ("a", Priority.HIGH), ("b", Priority.HIGH)]
    found = shares(jobs)
    return 100 * (1 - found["low"] / found.total())


def largest_by_smallest_share() -> float:
    """Return the most by the fewest chunks of four large jobs of one priority."""
    found = shares([(name, Priority.NORMAL) for name in "abcd"])
    return max(found.values()) / min(found.values())
