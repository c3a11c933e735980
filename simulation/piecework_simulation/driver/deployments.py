"""Deploy another version of a pipeline while its jobs run.

Every version does the same for a traveller. Its stages, calls or kinds of effects are
others. A schedule draws one of them. From a drawn moment on, workers that start take
it: all, or half of them. Some deployments are rolled back. When the faults end, all
workers have one of the two versions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Final

from piecework import Context, Effect, Pipeline, Stage
from piecework_simulation.driver.pipelines import (
    Item,
    book,
    cancel_flight,
    cancel_hotel,
    flight,
    hotel,
    pay,
    shop,
    sized,
    travel,
    write,
)
from piecework_simulation.driver.simulated_pipeline import instrument_pipeline
from piecework_simulation.invariants.acts import Acts

#: The share of the schedules in which another version is deployed.
SHARE: Final = 0.25
#: The acts of every version, by the first argument of `book`.
ACTS: Final = Acts(
    frozenset({"flight", "hotel", "payment", "letter"}), frozenset({"flight", "hotel"})
)

once = replace(shop, effect=Effect.NON_IDEMPOTENT)
store = replace(shop, name="store")


async def nothing(ctx: Context[Item]) -> str:
    """Do nothing: another stage books the flight."""
    del ctx
    return ""


async def reserve(what: str, n: int, size: int = 0, *, idempotency_key: str) -> str:
    """Make a booking, as `book` does."""
    return await book(what, n, size, idempotency_key=idempotency_key)


async def flight_by_name(ctx: Context[Item]) -> str:
    """Book the flight with another form of the arguments."""
    n, size = sized(ctx)
    return await ctx.call(shop, book, "flight", n=n, size=size)


async def flight_reserved(ctx: Context[Item]) -> str:
    """Book the flight by another function."""
    return await ctx.call(shop, reserve, "flight", *sized(ctx))


async def flight_of_store(ctx: Context[Item]) -> str:
    """Book the flight at a dependency of another name."""
    return await ctx.call(store, book, "flight", *sized(ctx))


async def flight_once(ctx: Context[Item]) -> str:
    """Book the flight at a provider that no longer honours keys."""
    return await ctx.call(once, book, "flight", *sized(ctx))


async def car(ctx: Context[Item]) -> str:
    """Book a car, which the first version does not."""
    return await ctx.call(shop, book, "car", *sized(ctx))


def version(*stages: Stage[Item]) -> Pipeline:
    """Return a version of the pipeline with other stages."""
    return replace(travel, stages=stages)


FLIGHT: Final = Stage(flight, compensate=cancel_flight)
HOTEL: Final = Stage(hotel, compensate=cancel_hotel)
PAY, WRITE = Stage(pay, pivot=True), Stage(write)
REST: Final = (HOTEL, PAY, WRITE)


def instead(function: object) -> Stage[Item]:
    """Return the first stage with another function."""
    return replace(FLIGHT, run=function, name="flight")  # type: ignore[arg-type]


#: The versions that may be deployed over `travel`.
LATER: Final = tuple(
    map(
        instrument_pipeline,
        (
            version(HOTEL, FLIGHT, PAY, WRITE),
            version(FLIGHT, Stage(car), *REST),
            version(Stage(car), FLIGHT, *REST),
            version(instead(flight_by_name), *REST),
            version(instead(flight_reserved), *REST),
            version(instead(flight_of_store), *REST),
            version(instead(flight_once), *REST),
            version(replace(FLIGHT, name="fly"), *REST),
            version(
                Stage(nothing, name="flight"),
                HOTEL,
                replace(FLIGHT, name="fly"),
                PAY,
                WRITE,
            ),
            replace(travel, result=hotel),
        ),
    )
)


@dataclass(slots=True)
class Deployment:
    """The two versions of the pipelines, and how many workers have the second.

    Attributes:
        share: The share of the workers that start now with the second version.
    """

    first: Mapping[str, Pipeline]
    second: Mapping[str, Pipeline]
    rng: Random
    share: float = 0.0

    def version(self) -> int:
        """Draw the version of a worker that starts: 1 or 2."""
        return 2 if self.rng.random() < self.share else 1

    def pipelines(self, version: int) -> Mapping[str, Pipeline]:
        """Return the pipelines of a version."""
        return self.second if version > 1 else self.first


def draw_deployment(
    pipelines: Mapping[str, Pipeline], rng: Random
) -> Deployment | None:
    """Draw whether another version is deployed, and which; None: there is none.

    `rng` is a generator of its own: the other draws of a seed stay as they were.
    """
    later: Sequence[Pipeline] = LATER if travel.name in pipelines else ()
    if not later or rng.random() >= SHARE:
        return None
    second = {**pipelines, travel.name: rng.choice(later)}
    return Deployment(pipelines, second, rng)
