"""Whole jobs on a simulated AWS without faults: one for each thing that may happen."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from piecework_simulation.crash_points.run import SETTINGS, build_driver, run_scenario
from piecework_simulation.crash_points.scenarios import SCENARIOS
from piecework_simulation.engine.faults import Faults
from piecework_simulation.engine.leftovers import leftovers_discarded
from piecework_simulation.engine.network import Exchange
from piecework_simulation.engine.world import World
from tests.simulation import (
    lives_of_claims,
    lives_of_jobs,
    lives_of_reconcilers,
    lives_of_workers,
)
from tests.simulation.life import LIVES, PIPELINES, Note, Shop
from tests.unit.orchestrator.simulated import Simulated, simulate

#: Each of them registers its lives.
REGISTERED = lives_of_jobs, lives_of_claims, lives_of_reconcilers, lives_of_workers
#: The lives, and those scenarios of the crash points that have their faults at calls.
ALL = [*LIVES, *(name for name, each in SCENARIOS.items() if not each.steps)]


def run_life(name: str, note: Note, say: Callable[[str], None]) -> None:
    """Run a life; note each request to AWS and, without a scenario, each log line."""
    if name in SCENARIOS:
        run_scenario_of(name, note)
        return
    act, settings = LIVES[name]
    Shop.closed = True
    lines: list[str] = []

    async def noted(at: Simulated) -> None:
        at.world.dynamodb.conflicts = None  # they are a matter of time
        at.world.on_exchange = note
        await act(at)
        for line in lines:  # later ones come from the end of the simulation
            say(line)

    simulate(noted, PIPELINES, workers=2, said=lines.append, **settings)


def run_scenario_of(name: str, note: Note) -> None:
    """Run a scenario of the crash points: sagas, cancels, questions and long waits."""
    rng = Random(1)
    world = World(SETTINGS, Faults({}, rng), rng)
    world.dynamodb.conflicts = None
    chunks = 3 if name == "ask" else 7  # one customer of each kind
    driver = build_driver(world, SCENARIOS[name], chunks)
    follow = world.on_exchange

    def both(when: str, exchange: Exchange) -> None:
        follow(when, exchange)
        note(when, exchange)

    world.on_exchange = both
    with leftovers_discarded(world):
        world.loop.run(run_scenario(driver, SCENARIOS[name]))
        violations = [*driver.invariants.violations]  # before the discarding
    assert not violations
