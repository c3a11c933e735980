"""One job under one design: its faults, the time after them, and its account.

The trial looks hours after everything works again. A job is **incomplete** if a chunk
is silently missing. Such a chunk has no result, and no dead letter that an operator can
find. A job is also incomplete if all chunks have a result and it does not say that it
is over. A job that waits, but whose dead letters say for what, is not counted: its
failure is seen. The same words hold for both designs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from piecework.domain.effect import Effect
from piecework_simulation.engine.faults import Faults
from piecework_simulation.engine.leftovers import leftovers_discarded
from piecework_simulation.engine.process import context_of
from piecework_simulation.engine.world import World
from piecework_simulation.provider import PROVIDER, Provider
from verification.naive.design import SLOTS, Design
from verification.naive.faults import draw_worker_faults, end_of_submitter, rates
from verification.naive.ours import SETTINGS, PieceworkDesign
from verification.naive.review import CHUNKS
from verification.naive.theirs import Source004Design

#: Seconds with faults, unless everything is over before.
FAULTS_S = 1_800.0
#: Seconds after the faults within which a job must end.
HORIZON_S = 4 * 3_600.0
#: Seconds after which a caller retries that received an error, or no reply and finds no
#: job.
AGAIN_S = 5.0
#: Seconds for requests that are still in transit to a provider.
TRANSIT_S = 10.0
DESIGNS: dict[str, Callable[[World], Design]] = {
    "naive": Source004Design,
    "naive_leaves": lambda world: Source004Design(world, loser_deletes=False),
    "ours": PieceworkDesign,
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a job.

    Attributes:
        missing: For each chunk that is silently missing, why.
        says_whole: The job's record says that nothing is missing.
    """

    seed: int
    missing: tuple[str, ...]
    dead: int
    ended: bool
    reports_complete: bool
    twice: int
    effects_twice: int
    paid: int
    paid_twice: int
    seconds: float
    errors: tuple[str, ...]
    trace: tuple[str, ...] = ()

    @property
    def incomplete(self) -> bool:
        """Return whether something is missing and not reported."""
        return bool(self.missing) or (not self.ended and not self.dead)

    @property
    def reports_falsely(self) -> bool:
        """Return whether the job's record claims completeness and is wrong."""
        return self.reports_complete and bool(self.missing or self.dead)


def run_trial(
    name: str, seed: int, intensity: float, *, traced: bool = False
) -> Outcome:
    """Run one job; the same arguments give the same outcome."""
    rng = Random(seed)
    faults = Faults(rates(intensity), rng)
    world = World(SETTINGS, faults, rng, traced=traced)
    provider = Provider(world, lambda _: None)
    PROVIDER.set(provider)
    world.context = context_of(world.loop.world)
    design = DESIGNS[name](world)
    world.dynamodb.on_write = design.check_write
    began = world.loop.moment
    with leftovers_discarded(world):
        world.loop.run(Trial(world, design, seed, intensity).run())
        account = design.account()
        missing = sorted({*range(CHUNKS)} - account.results - account.dead)
        return Outcome(
            seed=seed,
            missing=tuple(design.why_missing(chunk) for chunk in missing),
            dead=len(account.dead),
            ended=account.ended,
            reports_complete=account.whole,
            twice=design.completions(),
            effects_twice=repeated(provider, pure=False),
            paid=provider.paid,
            paid_twice=repeated(provider, pure=True),
            seconds=world.loop.moment - began,
            errors=(*design.errors(), *world.loop.errors),
            trace=tuple(world.trace),
        )


def repeated(provider: Provider, *, pure: bool) -> int:
    """Return how often calls were repeated, by the provider's records."""
    entries = [e for e in provider.records.values() if e.executions]
    return sum(e.executions - 1 for e in entries if pure == (e.effect is Effect.PURE))


@dataclass(slots=True)
class Trial:
    """The acts of one trial."""

    world: World
    design: Design
    seed: int
    intensity: float

    async def run(self) -> None:
        """Submit, inject the faults, then let everything end."""
        self.design.start()
        until = self.world.loop.moment + FAULTS_S
        worker_faults = asyncio.create_task(self.inject_worker_faults())
        async with asyncio.timeout_at(until):
            await self.submit()
        await self.wait_until_idle(until)
        worker_faults.cancel()
        self.end_faults()
        await self.wait_until_idle(self.world.loop.moment + HORIZON_S)
        await asyncio.sleep(TRANSIT_S)

    async def submit(self) -> None:
        """Submit as a caller: retry after an error, or if the job does not exist."""
        killed_after = end_of_submitter(self.seed, self.intensity)
        while True:
            asked = asyncio.create_task(self.design.submit())
            if killed_after is not None:
                await asyncio.sleep(killed_after)
                self.world.kill(self.design.submitter())
                killed_after = None
            said = await asked
            if said == "done" or (said == "died" and self.design.known()):
                return
            await asyncio.sleep(AGAIN_S)

    async def inject_worker_faults(self) -> None:
        """Kill and freeze workers."""
        for fault in draw_worker_faults(self.seed, self.intensity, SLOTS):
            await asyncio.sleep(fault.wait)
            workers = self.design.workers()
            if not workers:
                continue
            process = workers[fault.slot % len(workers)]
            if fault.freeze:
                self.world.note(process, f"frozen for {fault.freeze:.3f} s", None)
                self.world.loop.freeze(process, fault.freeze)
            else:
                self.world.kill(process)

    async def wait_until_idle(self, until: float) -> None:
        """Wait until nothing is in progress, or until the time is over."""
        while self.world.loop.moment < until and not self.over():  # noqa: ASYNC110 -- no event signals it
            await asyncio.sleep(1.0)

    def over(self) -> bool:
        """Return whether nothing can happen: no frozen worker has work in progress."""
        frozen = any(p.frozen and not p.dead for p in self.world.processes)
        return not frozen and self.design.over()

    def end_faults(self) -> None:
        """Stop injecting faults."""
        self.world.note(None, "the faults end", None)
        self.world.faults.on = False
        for process in self.world.processes:
            self.world.loop.thaw(process)
