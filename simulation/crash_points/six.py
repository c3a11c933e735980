"""Define a saga of six steps, and the booking events that it must cause."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from piecework import Context, Dependency, Pipeline, Stage
from simulation.crash_points.pipelines import Customer, book, meet_condition, unbook
from simulation.crash_points.town import BookingEvent
from simulation.pipelines import desk, shop

#: The steps in order, each with its dependency: by idempotency key, or by lookup.
STEPS = {
    "flight": shop,
    "hotel": desk,
    "car": shop,
    "seat": desk,
    "tour": shop,
    "cover": desk,
}


def step(what: str, dependency: Dependency) -> Stage:
    """Return the stage that makes a booking, with its compensation."""

    async def run(ctx: Context[Customer]) -> str:
        await meet_condition(ctx, what)
        return await ctx.call(dependency, book, what, ctx.payload.n, ctx.payload.kind)

    async def undo(ctx: Context[Customer]) -> None:
        await ctx.call(shop, unbook, what, ctx.payload.n)

    return Stage(run, compensate=undo, name=what)


six = Pipeline(
    "six",
    payload=Customer,
    stages=[step(what, dependency) for what, dependency in STEPS.items()],
)


def compensation_violations(
    customers: Sequence[Customer], history: Sequence[BookingEvent]
) -> Iterator[str]:
    """Yield the differences between the expected and the recorded booking events.

    The steps before the failed one are done. They and the failed step are compensated:
    each once, in reverse order, after all that was done.
    """
    for customer in customers:
        found = [(e.what, e.undone) for e in history if e.n == customer.n]
        wanted = expected_bookings(customer)
        if found != wanted:
            yield f"I8: customer {customer.n} has events {found}, expected {wanted}"


def expected_bookings(customer: Customer) -> list[tuple[str, bool]]:
    """Return the expected booking events of a customer, in order."""
    where, names = customer.kind.partition(":")[0], list(STEPS)
    if not where:
        return [(name, False) for name in names]
    failed = names.index(where)
    done = [(name, False) for name in names[:failed]]
    return done + [(name, True) for name in reversed(names[: failed + 1])]
