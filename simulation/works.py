"""What the simulator submits when it is given nothing: small jobs of four kinds."""

from __future__ import annotations

from random import Random

from simulation.acts import Work
from simulation.pipelines import Item, counting, milling, travel
from simulation.planning import planning
from simulation.watched import watched

#: Seconds that the work on a chunk takes beside its calls; some outlast a lease.
SECONDS = (0.0, 0.0, 0.0, 0.0, 3.0, 24.0)


def of_counting(rng: Random) -> list[Item]:
    """Draw a job of paid calls, some of whose chunks make trouble."""
    troubles = ("",) * 6 + ("analyse:permanent", "analyse:transient")
    return [
        Item(
            n=n,
            calls=rng.choice((0, 1, 3)),
            trouble=rng.choice(troubles),
            seconds=rng.choice(SECONDS),
        )
        for n in range(rng.choice((1, 1, 2, 3, 5)))
    ]


def of_travel(rng: Random) -> list[Item]:
    """Draw a job of sagas, some of which fail before, at or after their pivot."""
    stages = ("hotel", "pay", "write")
    troubles = [""] * 8 + [
        f"{s}:{k}" for s in stages for k in ("permanent", "transient")
    ]
    return [
        Item(n=n, trouble=rng.choice(troubles), seconds=rng.choice(SECONDS))
        for n in range(rng.choice((1, 2, 3)))
    ]


def of_planning(rng: Random) -> list[Item]:
    """Draw a job of stages that go other ways, and calls that others answer."""
    troubles = ["", "", "draft:semantic", "draft:policy"]
    troubles += ["lodge:permanent", "lodge:transient"]
    return [
        Item(n=n, trouble=rng.choice(troubles), seconds=rng.choice(SECONDS))
        for n in range(rng.choice((1, 2, 3)))
    ]


def of_milling(rng: Random) -> list[Item]:
    """Draw a job whose dependencies have outages."""
    troubles = ["", "", "", "gate:permanent", "gate:transient"]
    return [
        Item(n=n, calls=rng.choice((1, 2, 4)), trouble=rng.choice(troubles))
        for n in range(rng.choice((1, 3, 6)))
    ]


WORKS = (
    Work(watched(counting), of_counting),
    Work(watched(travel), of_travel),
    Work(watched(planning), of_planning),
    Work(watched(milling), of_milling),
)
