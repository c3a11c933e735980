"""Define the default workloads: small jobs of four pipelines."""

from __future__ import annotations

from random import Random

from simulation.acts import Workload
from simulation.pipelines import Item, counting, milling, travel
from simulation.planning import planning
from simulation.watched import instrument_pipeline

#: Seconds of work on a chunk beside its calls; some exceed the lease.
SECONDS = (0.0, 0.0, 0.0, 0.0, 3.0, 24.0)


def draw_counting(rng: Random) -> list[Item]:
    """Draw a job of paid calls, in which some chunks fail."""
    errors = ("",) * 6 + ("analyse:permanent", "analyse:transient")
    return [
        Item(
            n=n,
            calls=rng.choice((0, 1, 3)),
            trouble=rng.choice(errors),
            seconds=rng.choice(SECONDS),
        )
        for n in range(rng.choice((1, 1, 2, 3, 5)))
    ]


def draw_travel(rng: Random) -> list[Item]:
    """Draw a job of sagas, some of which fail before, at or after their pivot."""
    stages = ("hotel", "pay", "write")
    errors = [""] * 8 + [f"{s}:{k}" for s in stages for k in ("permanent", "transient")]
    return [
        Item(n=n, trouble=rng.choice(errors), seconds=rng.choice(SECONDS))
        for n in range(rng.choice((1, 2, 3)))
    ]


def draw_planning(rng: Random) -> list[Item]:
    """Draw a job whose stages use variants, and whose calls use fallbacks."""
    errors = ["", "", "draft:semantic", "draft:policy"]
    errors += ["lodge:permanent", "lodge:transient"]
    return [
        Item(n=n, trouble=rng.choice(errors), seconds=rng.choice(SECONDS))
        for n in range(rng.choice((1, 2, 3)))
    ]


def draw_milling(rng: Random) -> list[Item]:
    """Draw a job whose dependencies have outages."""
    errors = ["", "", "", "gate:permanent", "gate:transient"]
    return [
        Item(n=n, calls=rng.choice((1, 2, 4)), trouble=rng.choice(errors))
        for n in range(rng.choice((1, 3, 6)))
    ]


WORKLOADS = (
    Workload(instrument_pipeline(counting), draw_counting),
    Workload(instrument_pipeline(travel), draw_travel),
    Workload(instrument_pipeline(planning), draw_planning),
    Workload(instrument_pipeline(milling), draw_milling),
)
