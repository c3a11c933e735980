"""One schedule: from a seed to a verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextvars import copy_context
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any

from piecework.domain.identity import path_of
from piecework.settings import Settings
from piecework_simulation.batch_provider import BatchService
from piecework_simulation.driver.actions import ScheduleDriver, Workload
from piecework_simulation.driver.deployments import ACTS, draw_deployment
from piecework_simulation.driver.pipelines import travel
from piecework_simulation.driver.processes import FleetDriver
from piecework_simulation.engine.faults import Faults, swarm
from piecework_simulation.engine.leftovers import leftovers_discarded
from piecework_simulation.engine.process import PROCESS, context_of
from piecework_simulation.engine.sandbox import Log
from piecework_simulation.engine.world import World
from piecework_simulation.invariants.checker import Invariants
from piecework_simulation.provider import PROVIDER, Provider

TENANT = "tenant"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of one schedule.

    Attributes:
        unstubbed: The functions whose stub no call used.
    """

    seed: int
    violations: Sequence[str]
    fired: Mapping[str, int]
    transitions: Mapping[str, int]
    jobs: Mapping[str, int]
    succeeded: int
    codes: Mapping[str, int]
    requests: int
    paid: int
    paid_twice: int
    seconds: float
    trace: Sequence[str] = ()
    unstubbed: frozenset[str] = frozenset()


def draw_settings(rng: Random) -> Settings:
    """Draw the settings: short times, their relations as they are."""
    return settings(
        max_attempts=rng.choice((1, 2, 3, 3)),
        max_releases=rng.choice((1, 10)),
        max_takeovers=rng.choice((0, 1, 10)),
        shutdown_grace_s=rng.choice((0.0, 5.0)),
        max_chunks=rng.choice((1, 2, 4)),
        cancel_poll_s=rng.choice((0.5, 2.0, 5.0)),
    )


@cache
def settings(**drawn: Any) -> Settings:
    """Return cached settings: parsing them is the largest cost of a world."""
    return Settings(
        app="simulated",
        env="test",
        tenant=TENANT,
        lease_s=20.0,
        visibility_s=30.0,
        clock_skew_s=5.0,
        max_runtime_s=120.0,
        stall_timeout_s=60.0,
        max_calls_in_flight=8,
        receive_wait_s=20,
        reconcile_s=5.0,
        redispatch_s=60.0,
        free_probe_s=60.0,
        **drawn,
    )


def run_schedule(
    seed: int, workloads: Sequence[Workload], *, traced: bool = False
) -> Verdict:
    """Run the schedule of a seed; the same seed gives an identical result.

    The schedule runs in its own context, so that no context variable outlives its
    world.
    """
    return copy_context().run(simulate_seed, seed, workloads, traced=traced)


def simulate_seed(seed: int, workloads: Sequence[Workload], *, traced: bool) -> Verdict:
    """Create the world of a seed, and run it to its end."""
    rng = Random(seed)
    faults = Faults(swarm(rng), rng)
    world = World(draw_settings(rng), faults, rng, traced=traced)
    invariants = Invariants(world)
    stubs = {old: new for work in workloads for old, new in work.stubs.items()}
    provider = Provider(world, invariants.report_violation, stubs)
    provider.batches = BatchService(
        provider, Random(f"{rng.getstate()[1][:3]} batches")
    )
    known = [each for work in workloads for each in (work.pipeline, *work.also)]
    pipelines = {pipeline.name: pipeline for pipeline in known}
    invariants.pivots.pivots = {n: p.pivot_name for n, p in pipelines.items()}
    invariants.letters.compensable = {
        n: frozenset(s.name for s in p.stages if s.compensate)
        for n, p in pipelines.items()
    }
    fleet = FleetDriver(world, pipelines, attach_checkers(world, invariants, provider))
    apart = Random(seed)  # the other draws of a seed stay as they were
    fleet.deployment = draw_deployment(pipelines, apart)
    if fleet.deployment is not None:
        invariants.acts.pipelines = {travel.name: ACTS}
        later = fleet.deployment.second[travel.name].stages
        undone = frozenset(stage.name for stage in later if stage.compensate)
        # What the other version cannot compensate stays for an operator.
        invariants.letters.compensable = {
            name: known & undone if name == travel.name else known
            for name, known in invariants.letters.compensable.items()
        }
    driver = ScheduleDriver(world, invariants, fleet, provider, workloads)
    began = world.loop.moment
    with leftovers_discarded(world):
        try:
            world.loop.run(driver.run())
        except Exception as error:  # noqa: BLE001 -- a schedule has a verdict, always
            invariants.report_violation(f"unexpected: {error!r}")
        for trouble in world.loop.errors:
            invariants.report_violation(f"unexpected: {trouble}")
        return Verdict(
            seed=seed,
            violations=tuple(invariants.violations),
            fired=faults.fired,
            transitions=invariants.transitions,
            jobs=Counter(str(item["status"]) for item in invariants.jobs.values()),
            succeeded=len(invariants.succeeded),
            codes=invariants.codes(),
            requests=world.requests,
            paid=provider.paid,
            paid_twice=provider.paid_twice,
            seconds=world.loop.moment - began,
            trace=tuple(world.trace),
            unstubbed=frozenset(
                f"{each.__module__}.{path_of(each)}"
                for each in stubs.keys() - provider.stubbed
            ),
        )


# ── checkers in their places ──────────────────────────────────────────────────


def attach_checkers(world: World, invariants: Invariants, provider: Provider) -> Log:
    """Attach the checkers and the log to a world; return the log."""
    invariants.provider = provider
    provider.claimed_as_suspect = invariants.claimed_as_suspect
    provider.continues = invariants.continues
    provider.check_request = invariants.budgets.check_request
    provider.check_start = invariants.check_start
    provider.note_full = invariants.lanes.note_full
    provider.check_answer = invariants.check_answer
    provider.note_act = invariants.acts.note
    invariants.acts.records = provider.records
    world.dynamodb.on_write = invariants.check_write
    world.sqs.on_delete = invariants.check_deleted_message
    PROVIDER.set(provider)
    world.context = context_of(world.loop.world)  # a context that contains the provider
    return Log(
        lambda text: invariants.report_violation(f"unexpected: {text}"),
        lambda text: world.note(PROCESS.get(None), text, None),
    )
