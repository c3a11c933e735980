"""Guarantee: a user's test runs a pipeline with kills, failures and fakes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic import BaseModel

from piecework import (
    Context,
    Dependency,
    Effect,
    PermanentError,
    Pipeline,
    Stage,
    TransientError,
    pipeline,
)
from piecework.errors import UsageError
from piecework.testing import Piecework, failing, killed_after, killed_in

hotel = Dependency("hotel", effect=Effect.PROVIDER_IDEMPOTENT)
bank = Dependency("bank", effect=Effect.PROVIDER_IDEMPOTENT)
#: What the services have done: name and key.
done: list[tuple[str, str]] = []


class Trip(BaseModel):
    """A payload."""

    city: str


@hotel.call
async def book(city: str, *, idempotency_key: str = "") -> str:
    """Book a room."""
    await asyncio.sleep(0)
    done.append(("book", idempotency_key))
    return f"room in {city}"


@hotel.call
async def cancel(city: str, *, idempotency_key: str = "") -> None:
    """Cancel a room."""
    del city
    done.append(("cancel", idempotency_key))


@bank.call
async def charge(cents: int, *, idempotency_key: str = "") -> str:
    """Take a payment."""
    await asyncio.sleep(0)
    done.append(("charge", idempotency_key))
    return f"paid {cents}"


async def book_hotel(ctx: Context[Trip]) -> str:
    """Book."""
    return await book(ctx.payload.city)


async def cancel_hotel(ctx: Context[Trip]) -> None:
    """Compensate."""
    await cancel(ctx.payload.city)


async def take_payment(ctx: Context[Trip]) -> str:
    """Pay: the pivot."""
    assert ctx.result(book_hotel)
    return await charge(100)


trip = Pipeline(
    "trip",
    payload=Trip,
    stages=[
        Stage(book_hotel, compensate=cancel_hotel),
        Stage(take_payment, pivot=True),
    ],
)
ROWS = [Trip(city="Rome"), Trip(city="Oslo")]


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    done.clear()


def test_only_a_declared_call_or_a_model_has_a_fake(piecework: Piecework) -> None:
    with pytest.raises(UsageError, match="neither a declared call nor a model") as no:
        piecework.fake(len, 1)  # type: ignore[arg-type]
    assert "@dependency.call" in no.value.next_step


@pytest.mark.parametrize(
    ("fault", "booked", "charged"),
    [
        (killed_after("book_hotel"), 1, 1),  # the answer is in the journal
        (killed_after("take_payment"), 1, 1),
        (killed_in("book"), 2, 1),  # the answer was lost: the same key again
        (killed_in("charge", times=3), 1, 4),
    ],
)
async def test_a_kill_repeats_only_what_was_not_stored(
    piecework: Piecework, fault: Any, booked: int, charged: int
) -> None:
    run = await piecework.run(trip, [{"city": "Rome"}], faults=[fault])
    assert run.results == {0: "paid 100"}
    assert (run.calls("book"), run.calls("charge")) == (booked, charged)
    assert (run.effects("book"), run.effects("charge")) == (1, 1)
    assert len(done) == booked + charged


async def test_a_failure_before_the_pivot_is_compensated_in_each_chunk(
    piecework: Piecework,
) -> None:
    refusal = PermanentError("no room", code="tool.request.rejected")
    run = await piecework.run(trip, ROWS, faults=[failing("book", refusal)])
    assert run.results == {}
    assert (run.calls("book"), run.effects("cancel"), run.calls("charge")) == (0, 2, 0)


async def test_a_transient_failure_is_retried(piecework: Piecework) -> None:
    busy = failing("charge", TransientError("busy"), times=2)
    run = await piecework.run(trip, ROWS[:1], faults=[busy])
    assert (run.results, run.calls("charge")) == ({0: "paid 100"}, 1)


async def test_a_fake_answers_and_counts(piecework: Piecework) -> None:
    fake = piecework.fake(charge, lambda cents: f"faked {cents}")
    run = await piecework.run(trip, ROWS)
    assert run.results == {0: "faked 100", 1: "faked 100"}
    assert (fake.count, fake.requests[0]) == (2, ((100,), {}))
    assert {name for name, _ in done} == {"book"}


@pipeline
async def shortened(part: Trip) -> str:
    """Return the start of a city."""
    return (await book(part.city))[:3]


def test_a_simulation_passes_and_names_the_seed_of_a_violation(
    piecework: Piecework, monkeypatch: pytest.MonkeyPatch
) -> None:
    piecework.simulate(shortened, ROWS, schedules=3)
    piecework.simulate(trip, ROWS, schedules=3, seed=100)
    from piecework_simulation.driver import schedule

    class Verdict:
        violations = ("chunk 0 is missing",)

    monkeypatch.setattr(schedule, "run_schedule", lambda *_: Verdict)
    with pytest.raises(AssertionError, match="seed 7: chunk 0 is missing"):
        piecework.simulate(trip, ROWS, schedules=1, seed=7)


async def test_a_fault_that_happened_nowhere_fails_the_test(
    piecework: Piecework,
) -> None:
    with pytest.raises(AssertionError, match="after stage 'take_paiment'"):
        await piecework.run(trip, ROWS, faults=[killed_after("take_paiment")])
