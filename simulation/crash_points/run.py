"""One run of a scenario, with one strike or none."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from random import Random

from piecework.settings import Settings
from simulation.actors import Cast
from simulation.crash_points.play import COMES_BACK_S, Picture, Play
from simulation.crash_points.scenarios import SCENARIOS, Scenario
from simulation.crash_points.strikes import Point, Strike, Strikes
from simulation.crash_points.town import TOWN, Town
from simulation.ending import check_the_end
from simulation.faults import Faults
from simulation.promises import Promises
from simulation.remains import remains_at_rest
from simulation.watched import watched
from simulation.wiring import wire
from simulation.world import World

WORKERS = 2
#: Seconds that a request to the outside is on its way, at most. Short times make short
#: runs; their relations are the usual ones.
LANDING_S = 1.0
SETTINGS = Settings(
    app="simulated",
    env="test",
    tenant="tenant",
    lease_s=10.0,
    visibility_s=12.0,
    max_attempts=4,
    max_runtime_s=900.0,
    stall_timeout_s=600.0,
    max_chunks=11,
    reconcile_s=4.0,
    redispatch_s=30.0,
)


@dataclass(frozen=True, slots=True)
class Job:
    """What is run, each time in just the same way until something is struck."""

    scenario: str
    chunks: int
    seed: int


@dataclass(frozen=True, slots=True)
class Run:
    """What came of a run.

    Attributes:
        at_work: The stages of the chunks in the hands of the struck process.
    """

    points: Sequence[Point]
    pictures: Sequence[Picture]
    broken: Sequence[str]
    unended: bool
    struck: bool
    at_work: dict[int, str]
    trace: Sequence[str]


@cache
def undisturbed(job: Job) -> Run:
    """Return the run in which nothing happens."""
    return run(job, None)


def run(
    job: Job,
    strike: Strike | None,
    *,
    traced: bool = False,
    on_point: Callable[[Strikes, int], None] = lambda *_: None,
) -> Run:
    """Run a job once; the same job and strike give the same, word for word."""
    rng = Random(job.seed)
    world = World(SETTINGS, Faults({}, rng), rng, traced=traced)
    play = set_up(world, SCENARIOS[job.scenario], job.chunks)
    play.strikes.strike = strike
    play.strikes.on_point = on_point
    with remains_at_rest(world):
        world.loop.run(act(play, SCENARIOS[job.scenario]))
        for trouble in world.loop.troubles:
            play.promises.break_(f"unexpected: {trouble}")
        return Run(
            points=play.strikes.points,
            pictures=play.pictures,
            broken=tuple(play.promises.broken),
            unended=play.unended,
            struck=play.strikes.struck is not None,
            at_work=play.strikes.at_work,
            trace=tuple(world.trace),
        )


def set_up(world: World, scenario: Scenario, chunks: int) -> Play:
    """Return a scenario before its first act."""
    promises = Promises(world)
    strikes = Strikes(world, promises)
    town = Town(world, promises.break_, landing_s=LANDING_S, strikes=strikes)
    world.on_exchange = strikes.on_exchange
    TOWN.set(town)
    log = wire(world, promises, town)
    pipeline = watched(scenario.pipeline)
    cast = Cast(world, {pipeline.name: pipeline}, log)
    customers = scenario.customers(chunks)
    return Play(world, promises, cast, town, strikes, pipeline, customers)


async def act(play: Play, scenario: Scenario) -> None:
    """Play a scenario to its end, and look at what is left."""
    for _ in range(WORKERS):
        play.cast.worker(reconcile=scenario.beside)
    if scenario.steps:
        for process in play.cast.workers:
            play.strikes.follow(process)
    if not scenario.beside:
        play.cast.reconciler()
    await scenario.acts(play)
    play.strikes.counting = False
    if play.strikes.struck:
        await asyncio.sleep(COMES_BACK_S)
        if play.picture() != play.pictures[-1]:
            play.promises.break_("I4: the end was not the end")
    check_the_end(play.world, play.promises)
    for said in scenario.check(play):
        play.promises.break_(said)
