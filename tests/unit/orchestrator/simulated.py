"""Workers and commands on a simulated AWS without faults, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, TypeVar

from pydantic import BaseModel

from piecework.domain.chunk import Chunk
from piecework.domain.dead_letter import DeadLetterRow
from piecework.domain.job import Job
from piecework.domain.refs import JobRef
from piecework.pipelines import Pipeline
from piecework.runtime import Runtime
from piecework.settings import Settings
from piecework.store.completion import all_chunks
from piecework.store.dead_letters import DeadLetters
from piecework_orchestrator.dead_letters.redrive import RedriveRequest
from piecework_simulation.driver.processes import FleetDriver
from piecework_simulation.engine.faults import Faults
from piecework_simulation.engine.leftovers import leftovers_discarded
from piecework_simulation.engine.runtimes import open_runtime
from piecework_simulation.engine.sandbox import Log
from piecework_simulation.engine.world import World

R = TypeVar("R")

REF = JobRef("default", "a")


@dataclass(slots=True)
class Simulated:
    """A world without faults, and the processes that a test starts in it."""

    world: World
    fleet: FleetDriver
    rt: Runtime

    async def submit(self, pipeline: Pipeline, items: Sequence[BaseModel]) -> None:
        """Submit job `a`."""
        assert "done" == await self.fleet.submit(REF, pipeline, items, mortal=False)

    async def ended(self, poll_s: float = 0.25) -> Job:
        """Return the job once it has ended; `poll_s` seconds pass between two reads."""
        while True:
            job = await self.rt.jobs.read(REF)
            if job is not None and job.status.ended:
                return job
            await asyncio.sleep(poll_s)

    async def chunks(self) -> list[Chunk]:
        """Return the chunks of the job."""
        job = await self.rt.jobs.read(REF)
        assert job is not None
        return [c async for c in all_chunks(self.rt.table, job.ref, job.chunks)]

    async def letters(self) -> list[DeadLetterRow]:
        """Return the open dead letters of the job."""
        store = DeadLetters(self.rt.dead_letters, self.rt.settings, self.rt.clock)
        found = [row async for row in store.of_job(REF) if row.state == "OPEN"]
        return sorted(found, key=lambda row: row.chunk)


#: Facts of log lines that neither a time nor a random number is in.
FACTS = ["outcome", "status", "reason", "error_code", "blocked_on", "compensation"]
FACTS += ["to_compensate", "rung", "about", "action", "count", "takeovers"]
FACTS += ["calls", "cached", "replayed"]


class FullLog(Log):
    """Notes every line, whatever its level, with the facts that name a kind."""

    def info(self, event: str = "", **facts: Any) -> None:
        named = [f"{name}={facts[name]}" for name in FACTS if facts.get(name)]
        self.note(" ".join([event, *named]))

    debug = warning = error = info


def redrive_of(letters: Sequence[DeadLetterRow]) -> RedriveRequest:
    """Return a redrive of these dead letters."""
    return RedriveRequest(REF, letters, "tester", "it is fixed")


def simulate(
    act: Callable[[Simulated], Awaitable[R]],
    pipelines: Sequence[Pipeline] = (),
    *,
    workers: int = 1,
    seed: int = 1,
    said: Callable[[str], None] = lambda _: None,
    **settings: float,
) -> R:
    """Run an act beside so many workers; fail if a process had an unexpected error.

    `said` gets each log line: its event, and those facts that no time is in.
    """
    rng = Random(seed)
    known = Settings(**{"max_attempts": 1, **settings})
    world = World(known, Faults({}, rng), rng)
    unexpected: list[str] = []
    log = FullLog(unexpected.append, said)
    fleet = FleetDriver(world, {p.name: p for p in pipelines}, log)

    async def run() -> R:
        for _ in range(workers):
            fleet.worker(reconcile=True)
        rt = open_runtime(world, world.process("test", mortal=False))
        return await act(Simulated(world, fleet, rt))

    with leftovers_discarded(world):
        result = world.loop.run(run())
        # Before the discarding, whose errors are irrelevant.
        trouble = [*unexpected, *world.loop.errors]
    assert not trouble, trouble
    return result
