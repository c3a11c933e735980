"""One job under one design: what goes wrong, then an end of it, then an account.

A job is **incomplete** if, hours after everything works again, one of its chunks has
neither a result nor a dead letter that an operator can find (it is silently missing),
or if all of its chunks have a result and the job still does not say that it is over.
A job that waits, but whose dead letters say for what, is not counted: its failure is
seen. The same words hold for both designs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from piecework.dependency import Effect
from simulation.faults import Faults
from simulation.outside import PROVIDER, Outside
from simulation.process import context_of
from simulation.remains import leftovers_discarded
from simulation.world import World
from tests.naive.misfortune import blows, end_of_submitter, rates
from tests.naive.ours import SETTINGS, Ours
from tests.naive.review import CHUNKS
from tests.naive.side import SLOTS, Side
from tests.naive.theirs import Theirs

#: Seconds that things go wrong, unless everything is over before.
FAULTS_S = 1_800.0
#: Seconds after that within which a job has to come to its end.
HORIZON_S = 4 * 3_600.0
#: Seconds after which a caller who got an error, or no answer and finds no job, tries
#: again.
AGAIN_S = 5.0
#: Seconds for what is still on its way to the outside.
LANDS_S = 10.0
DESIGNS: dict[str, Callable[[World], Side]] = {
    "naive": Theirs,
    "naive_leaves": lambda world: Theirs(world, loser_deletes=False),
    "ours": Ours,
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a job.

    Attributes:
        missing: For each chunk that is silently missing, how it came to be.
        says_whole: The job's record says that nothing is missing.
    """

    seed: int
    missing: tuple[str, ...]
    dead: int
    ended: bool
    says_whole: bool
    twice: int
    effects_twice: int
    paid: int
    paid_again: int
    seconds: float
    troubles: tuple[str, ...]
    trace: tuple[str, ...] = ()

    @property
    def incomplete(self) -> bool:
        """Say whether something is missing and nothing says so."""
        return bool(self.missing) or (not self.ended and not self.dead)

    @property
    def lies(self) -> bool:
        """Say whether the job's record says that all is there, and it is not."""
        return self.says_whole and bool(self.missing or self.dead)


def run_trial(
    design: str, seed: int, intensity: float, *, traced: bool = False
) -> Outcome:
    """Run one job; the same arguments give the same outcome."""
    rng = Random(seed)
    faults = Faults(rates(intensity), rng)
    world = World(SETTINGS, faults, rng, traced=traced)
    outside = Outside(world, lambda _: None)
    PROVIDER.set(outside)
    world.context = context_of(world.loop.world)
    side = DESIGNS[design](world)
    world.dynamodb.on_write = side.written
    began = world.loop.moment
    with leftovers_discarded(world):
        world.loop.run(Trial(world, side, seed, intensity).run())
        account = side.account()
        missing = sorted({*range(CHUNKS)} - account.results - account.dead)
        return Outcome(
            seed=seed,
            missing=tuple(side.why_missing(chunk) for chunk in missing),
            dead=len(account.dead),
            ended=account.ended,
            says_whole=account.whole,
            twice=side.completions(),
            effects_twice=repeated(outside, pure=False),
            paid=outside.paid,
            paid_again=repeated(outside, pure=True),
            seconds=world.loop.moment - began,
            troubles=(*side.troubles(), *world.loop.troubles),
            trace=tuple(world.trace),
        )


def repeated(outside: Outside, *, pure: bool) -> int:
    """Return how often something happened again, by the outside's own books."""
    entries = [e for e in outside.books.values() if e.landed]
    return sum(e.landed - 1 for e in entries if pure == (e.effect is Effect.PURE))


@dataclass(slots=True)
class Trial:
    """The acts of one trial."""

    world: World
    side: Side
    seed: int
    intensity: float

    async def run(self) -> None:
        """Submit, let everything go wrong, then let everything come to its end."""
        self.side.start()
        until = self.world.loop.moment + FAULTS_S
        strikes = asyncio.create_task(self.strike())
        async with asyncio.timeout_at(until):
            await self.submit()
        await self.until_over(until)
        strikes.cancel()
        self.end_faults()
        await self.until_over(self.world.loop.moment + HORIZON_S)
        await asyncio.sleep(LANDS_S)

    async def submit(self) -> None:
        """Be the caller: try again after an error, or if no job is to be found."""
        life = end_of_submitter(self.seed, self.intensity)
        while True:
            asked = asyncio.create_task(self.side.submit())
            if life is not None:
                await asyncio.sleep(life)
                self.world.kill(self.side.submitter())
                life = None
            said = await asked
            if said == "done" or (said == "died" and self.side.known()):
                return
            await asyncio.sleep(AGAIN_S)

    async def strike(self) -> None:
        """Kill and freeze workers."""
        for blow in blows(self.seed, self.intensity, SLOTS):
            await asyncio.sleep(blow.wait)
            workers = self.side.workers()
            if not workers:
                continue
            process = workers[blow.slot % len(workers)]
            if blow.freeze:
                self.world.note(process, f"frozen for {blow.freeze:.3f} s", None)
                self.world.loop.freeze(process, blow.freeze)
            else:
                self.world.kill(process)

    async def until_over(self, until: float) -> None:
        """Wait until nothing is under way, or the time is over."""
        while self.world.loop.moment < until and not self.over():  # noqa: ASYNC110 -- no event says it
            await asyncio.sleep(1.0)

    def over(self) -> bool:
        """Say whether nothing more can happen: nobody is frozen with work in hand."""
        frozen = any(p.frozen and not p.dead for p in self.world.processes)
        return not frozen and self.side.over()

    def end_faults(self) -> None:
        """Let everything work from now on."""
        self.world.note(None, "the faults end", None)
        self.world.faults.on = False
        for process in self.world.processes:
            self.world.loop.thaw(process)
