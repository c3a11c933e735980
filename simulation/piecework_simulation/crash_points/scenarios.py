"""Define the scenarios: the jobs, and the operator commands."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from piecework import Context, Dependency, Stage
from piecework.pipelines import Pipeline
from piecework_simulation.crash_points.pipelines import (
    ASKED_S,
    LATER_S,
    REMINDED_S,
    Customer,
    approving,
    book,
    counting,
    meet_condition,
    travel,
    unbook,
)
from piecework_simulation.crash_points.provider import BookingEvent
from piecework_simulation.crash_points.scenario_driver import (
    CLEANUP_S,
    ScenarioDriver,
)
from piecework_simulation.driver.pipelines import desk, shop

#: Seconds before the end of a long wait from which faults count again.
IDLE_MARGIN_S = 20.0

# ── saga of six steps ─────────────────────────────────────────────────────────

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

    The steps before the failed one are done. They are compensated: each once, in
    reverse order, after all that was done. The failed step is compensated before them
    only if a worker died in its call: then it is in doubt.
    """
    for customer in customers:
        found = [(e.what, e.undone) for e in history if e.n == customer.n]
        wanted = expected_bookings(customer)
        if found not in wanted:
            yield f"I8: customer {customer.n} has events {found}, expected {wanted}"


def expected_bookings(customer: Customer) -> list[list[tuple[str, bool]]]:
    """Return the expected booking events of a customer in order, and in doubt."""
    where, names = customer.kind.partition(":")[0], list(STEPS)
    if not where:
        return [[(name, False) for name in names]]
    before = names[: names.index(where)]
    done = [(name, False) for name in before]
    undone = [(name, True) for name in reversed(before)]
    return [done + undone, [*done, (where, True), *undone]]


@dataclass(frozen=True, slots=True)
class Scenario:
    """One scenario.

    Attributes:
        kinds: The conditions of the customers, in rotation.
        acts: Drives the scenario.
        beside: Whether reconcilers run inside the workers, or one runs standalone.
        steps: Whether faults also hit each step of a worker's loop: each `await`. One
            customer of each kind is enough then.
        check: Yields violations specific to this scenario.
    """

    pipeline: Pipeline
    kinds: Sequence[str]
    acts: Callable[[ScenarioDriver], Awaitable[None]]
    beside: bool
    steps: bool = False
    check: Callable[[ScenarioDriver], Iterable[str]] = lambda _: ()

    def customers(self, chunks: int) -> list[Customer]:
        """Return the payloads of a job."""
        kinds = self.kinds
        most = len(kinds) if self.steps else chunks
        return [
            Customer(n=n, kind=kinds[n % len(kinds)]) for n in range(min(chunks, most))
        ]


async def submit_and_wait(driver: ScenarioDriver) -> None:
    """Submit, and wait for the end."""
    await driver.submit()
    await driver.wait_for_end()


async def wait_long(driver: ScenarioDriver) -> None:
    """Submit a job whose chunks leave the queue; the idle time has no fault points."""
    await driver.submit()
    await driver.until(driver.all_have_reached)
    await asyncio.sleep(CLEANUP_S)
    await driver.run_uncounted(asyncio.sleep(LATER_S - IDLE_MARGIN_S))
    await driver.wait_for_end()


async def answer_once(driver: ScenarioDriver) -> None:
    """Answer one of two questions, twice; the other one ends at its time."""
    await driver.submit()
    await driver.until(driver.all_have_reached)
    await asyncio.sleep(REMINDED_S)
    await driver.answer()
    await asyncio.sleep(CLEANUP_S)
    await driver.run_uncounted(asyncio.sleep(ASKED_S - REMINDED_S - IDLE_MARGIN_S))
    await driver.wait_for_end()


async def redrive_dead_letters(driver: ScenarioDriver) -> None:
    """Redrive the dead letters of a finished job."""
    await driver.run_uncounted(submit_and_wait(driver))
    await driver.redrive()
    await driver.wait_for_end()


async def cancel_midway(driver: ScenarioDriver) -> None:
    """Submit a job, and cancel it midway."""
    await driver.submit()
    await driver.cancel(compensate=False)
    await driver.wait_for_end()


async def cancel_and_compensate(driver: ScenarioDriver) -> None:
    """Submit a job, cancel it midway, and compensate it."""
    await driver.submit()
    await driver.cancel(compensate=True)
    await driver.wait_for_end()


async def retry_cancelled(driver: ScenarioDriver) -> None:
    """Retry a cancelled job."""
    await driver.run_uncounted(cancel_midway(driver))
    await driver.retry()
    await driver.wait_for_end()


async def retry_compensated(driver: ScenarioDriver) -> None:
    """Retry a compensated job."""
    await driver.run_uncounted(cancel_and_compensate(driver))
    await driver.retry()
    await driver.wait_for_end()


def six_step_violations(driver: ScenarioDriver) -> Iterable[str]:
    """Yield the booking events that contradict the saga of six steps."""
    return compensation_violations(driver.customers, driver.provider.history)


def question_violations(driver: ScenarioDriver) -> Iterable[str]:
    """Yield the steps of questions that were not told exactly once."""
    told = Counter((step[1], step[5]) for step in driver.invariants.questions.told)
    # The driver answers the first one; the others end with their default.
    unanswered = [
        c.n for c in driver.customers[1:] if c.kind.startswith("approve:asks")
    ]
    steps = [(n, step) for n in unanswered for step in ("reminded", "defaulted")]
    wanted = Counter([(0, "answered"), *steps])
    if told - Counter([(0, "reminded")]) != wanted:
        yield f"I25: the steps {dict(told)} were told, expected {dict(wanted)}"


#: The provider asks the first attempt to wait for longer than a message stays queued.
WAITED = ("analyse:waits", "", "analyse:waits")
COUNTED = ("", "analyse:thrice", "analyse:refused", "", "", "", "")
OWNED = ("", "analyse:held", "analyse:later", "", "analyse:held", "")
BOOKED = ("hotel:refused", "pay:refused", "write:refused", "", "", "", "")
THOUGHT = ("hotel:thinking", "", "hotel:later", "write:thinking", "", "hotel:thinking")
#: Compensation waits for a booking in progress; one such customer is enough.
BEGUN = ("hotel:held", *THOUGHT * 4)

#: The last of six steps is refused, the third one is; and nothing happens.
SIX = ("cover:refused", "car:refused", "")
#: The first three are done when the job is cancelled.
SIX_LATER = ("seat:later",)

#: One question is answered, the other one has a default.
ASKED = ("approve:asks", "approve:asks-in-vain", "")

SCENARIOS = {
    "ask": Scenario(
        approving, ASKED, answer_once, beside=True, check=question_violations
    ),
    "plain": Scenario(counting, COUNTED, submit_and_wait, beside=True),
    "wait": Scenario(counting, WAITED, wait_long, beside=False),
    "saga": Scenario(travel, BOOKED, submit_and_wait, beside=False),
    "redrive": Scenario(travel, BOOKED, redrive_dead_letters, beside=True),
    "cancel": Scenario(counting, OWNED, cancel_midway, beside=True),
    "retry": Scenario(counting, OWNED, retry_cancelled, beside=False),
    "compensate": Scenario(travel, BEGUN, cancel_and_compensate, beside=False),
    "retry-compensated": Scenario(travel, BEGUN, retry_compensated, beside=True),
    "six": Scenario(
        six, SIX, submit_and_wait, beside=False, steps=True, check=six_step_violations
    ),
    "six-compensate": Scenario(
        six,
        SIX_LATER,
        cancel_and_compensate,
        beside=False,
        steps=True,
        check=six_step_violations,
    ),
}
