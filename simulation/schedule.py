"""One schedule: from a seed to a verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextvars import copy_context
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any

from piecework.settings import Settings
from simulation.actors import Cast
from simulation.acts import Acts, Work
from simulation.faults import Faults, swarm
from simulation.outside import Outside
from simulation.promises import Promises
from simulation.remains import remains_at_rest
from simulation.wiring import wire
from simulation.world import World

TENANT = "tenant"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of a schedule."""

    seed: int
    broken: Sequence[str]
    fired: Mapping[str, int]
    ways: Mapping[str, int]
    jobs: Mapping[str, int]
    codes: Mapping[str, int]
    requests: int
    paid: int
    paid_again: int
    seconds: float
    trace: Sequence[str] = ()


def settings_of(rng: Random) -> Settings:
    """Draw the settings: short times, their relations as they are."""
    return settings(
        max_attempts=rng.choice((1, 2, 3, 3)),
        max_releases=rng.choice((1, 10)),
        shutdown_grace_s=rng.choice((0.0, 5.0)),
        max_chunks=rng.choice((1, 2, 4)),
        cancel_poll_s=rng.choice((0.5, 2.0, 5.0)),
    )


@cache
def settings(**drawn: Any) -> Settings:
    """Return settings; to read them costs more than all else of a world's making."""
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
        **drawn,
    )


def run_schedule(seed: int, works: Sequence[Work], *, traced: bool = False) -> Verdict:
    """Run the schedule of a seed; the same seed gives the same, word for word.

    In a context of its own: what a world puts into it must not outlive that world.
    """
    return copy_context().run(play, seed, works, traced=traced)


def play(seed: int, works: Sequence[Work], *, traced: bool) -> Verdict:
    """Make the world of a seed, and let it run to its end."""
    rng = Random(seed)
    faults = Faults(swarm(rng), rng)
    world = World(settings_of(rng), faults, rng, traced=traced)
    promises = Promises(world)
    stand_ins = {old: new for work in works for old, new in work.stand_ins.items()}
    outside = Outside(world, promises.break_, stand_ins)
    pipelines = {work.pipeline.name: work.pipeline for work in works}
    cast = Cast(world, pipelines, wire(world, promises, outside))
    acts = Acts(world, promises, cast, works)
    began = world.loop.moment
    with remains_at_rest(world):
        try:
            world.loop.run(acts.run())
        except Exception as error:  # noqa: BLE001 -- a schedule has a verdict, always
            promises.break_(f"unexpected: {error!r}")
        for trouble in world.loop.troubles:
            promises.break_(f"unexpected: {trouble}")
        return Verdict(
            seed=seed,
            broken=tuple(promises.broken),
            fired=faults.fired,
            ways=promises.ways,
            jobs=Counter(str(item["status"]) for item in promises.jobs.values()),
            codes=promises.codes(),
            requests=world.requests,
            paid=outside.paid,
            paid_again=outside.paid_again,
            seconds=world.loop.moment - began,
            trace=tuple(world.trace),
        )
