"""Run a scenario once, with one fault or without."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from random import Random

from piecework.settings import Settings
from piecework_simulation.aws.throughput import HOT
from piecework_simulation.batch_provider import BatchService
from piecework_simulation.crash_points.fault_points import (
    FaultInjector,
    FaultPoint,
    InjectedFault,
)
from piecework_simulation.crash_points.provider import (
    RECORDING_PROVIDER,
    RecordingProvider,
)
from piecework_simulation.crash_points.scenario_driver import (
    REDELIVERY_S,
    ScenarioDriver,
    Snapshot,
)
from piecework_simulation.crash_points.scenarios import SCENARIOS, Scenario
from piecework_simulation.driver.processes import FleetDriver
from piecework_simulation.driver.schedule import attach_checkers
from piecework_simulation.driver.simulated_pipeline import instrument_pipeline
from piecework_simulation.engine.faults import Faults
from piecework_simulation.engine.leftovers import leftovers_discarded
from piecework_simulation.engine.world import World
from piecework_simulation.invariants.checker import Invariants
from piecework_simulation.invariants.end_state import check_final_state

WORKERS = 2
#: The chance that the load of other keys begins to throttle the key of a request.
HOT_RATE = 0.005
#: Maximum seconds that a request to a provider is in transit. Short times make short
#: runs; their ratios are those of the default settings.
DELIVERY_S = 1.0
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
    """The job that each run repeats identically up to its fault."""

    scenario: str
    chunks: int
    seed: int


@dataclass(frozen=True, slots=True)
class Run:
    """The result of a run.

    Attributes:
        stages_at_fault: The stages of the chunks that the faulty process owned.
    """

    points: Sequence[FaultPoint]
    snapshots: Sequence[Snapshot]
    violations: Sequence[str]
    unfinished: bool
    fault_happened: bool
    stages_at_fault: dict[int, str]
    trace: Sequence[str]


@cache
def run_without_fault(job: Job) -> Run:
    """Return the run in which nothing happens."""
    return run(job, None)


def run(
    job: Job,
    fault: InjectedFault | None,
    *,
    traced: bool = False,
    on_point: Callable[[FaultInjector, int], None] = lambda *_: None,
) -> Run:
    """Run a job once; the same job and fault give an identical result."""
    rng = Random(job.seed)
    world = World(SETTINGS, Faults({HOT: HOT_RATE}, rng), rng, traced=traced)
    driver = build_driver(world, SCENARIOS[job.scenario], job.chunks)
    driver.injector.fault = fault
    driver.injector.on_point = on_point
    with leftovers_discarded(world):
        world.loop.run(run_scenario(driver, SCENARIOS[job.scenario]))
        for trouble in world.loop.errors:
            driver.invariants.report_violation(f"unexpected: {trouble}")
        return Run(
            points=driver.injector.points,
            snapshots=driver.snapshots,
            violations=tuple(driver.invariants.violations),
            unfinished=driver.unfinished,
            fault_happened=driver.injector.failed_process is not None,
            stages_at_fault=driver.injector.stages_at_fault,
            trace=tuple(world.trace),
        )


def build_driver(world: World, scenario: Scenario, chunks: int) -> ScenarioDriver:
    """Return a scenario before its first act."""
    invariants = Invariants(world)
    injector = FaultInjector(world, invariants)
    provider = RecordingProvider(
        world, invariants.report_violation, delivery_s=DELIVERY_S, injector=injector
    )
    provider.batches = BatchService(provider, Random(0))
    world.on_exchange = injector.on_exchange
    RECORDING_PROVIDER.set(provider)
    log = attach_checkers(world, invariants, provider)
    pipeline = instrument_pipeline(scenario.pipeline)
    fleet = FleetDriver(world, {pipeline.name: pipeline}, log)
    customers = scenario.customers(chunks)
    return ScenarioDriver(
        world, invariants, fleet, provider, injector, pipeline, customers
    )


async def run_scenario(driver: ScenarioDriver, scenario: Scenario) -> None:
    """Run a scenario to its end, and check the final state."""
    for _ in range(WORKERS):
        driver.fleet.worker(reconcile=scenario.beside)
    if scenario.steps:
        for process in driver.fleet.workers:
            driver.injector.follow_steps(process)
    if not scenario.beside:
        driver.fleet.reconciler()
    await scenario.acts(driver)
    driver.injector.counting = False
    driver.world.dynamodb.throughput = None  # the checks read the tables
    if driver.injector.failed_process:
        await asyncio.sleep(REDELIVERY_S)
        if driver.take_snapshot() != driver.snapshots[-1]:
            driver.invariants.report_violation(
                "I4: the final state changed after the end"
            )
    check_final_state(driver.world, driver.invariants)
    for said in scenario.check(driver):
        driver.invariants.report_violation(said)
