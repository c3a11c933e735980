"""Kill a worker at any `await` of a saga of six steps: a sample.

`python -m piecework_simulation.crash_points --scenario six` tries all of them;
`--scenario six-undo` tries all of the compensation.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest

from piecework.saga import engine
from piecework.saga.compensation import CompensationStep, compensation_plan
from piecework_simulation.crash_points.explore import run_with_fault
from piecework_simulation.crash_points.fault_points import STEP, InjectedFault, Mode
from piecework_simulation.crash_points.pipelines import Customer
from piecework_simulation.crash_points.provider import BookingEvent
from piecework_simulation.crash_points.run import Job, run, run_without_fault
from piecework_simulation.crash_points.scenarios import (
    STEPS,
    compensation_violations,
    expected_bookings,
)

SCENARIOS = ("six", "six-undo")
#: The sample interval; each await of the saga is hit at least once.
EVERY = 22


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_crash_at_any_await_compensates_each_step_once_in_reverse(
    scenario: str,
) -> None:
    job = Job(scenario, chunks=3, seed=1)

    findings = [run_with_fault(job, fault) for fault in sample(job)]

    assert len(findings) > 20
    assert [] == [(f.fault, f.violations) for f in findings if f.violations]


def sample(job: Job) -> Iterator[InjectedFault]:
    """Yield a fault at each await of the saga where it first occurs, and others."""
    met = set()
    for number, point in enumerate(run_without_fault(job).points):
        where = point.name.partition(f" {STEP}")[2]
        first = "engine.py" in where and where not in met
        met.add(where)
        if first or number % EVERY == 0:
            yield InjectedFault(number, point.modes[number % len(point.modes)])


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_awaits_of_compensation_are_among_the_steps(scenario: str) -> None:
    points = run_without_fault(Job(scenario, chunks=3, seed=1)).points
    steps = [point.name for point in points if f" {STEP}" in point.name]

    assert {"worker-1", "worker-2"} == {name.split()[0] for name in steps}
    assert [] != [s for s in steps if "checkpoints.py" in s and "engine.py" in s]
    assert [] != [s for s in steps if "scenarios.py" in s and "caller.py" in s]


def test_a_fault_at_a_step_gives_an_identical_trace() -> None:
    job = Job("six", chunks=3, seed=1)
    fault = InjectedFault(len(run_without_fault(job).points) // 2, Mode.BEFORE)

    first, second = (run(job, fault, traced=True).trace for _ in range(2))

    assert first == second
    assert any("FAULT before" in line for line in first)


def test_compensation_in_the_wrong_order_is_detected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def forwards(*inputs: object) -> list[CompensationStep]:
        return compensation_plan(*inputs)[::-1]  # type: ignore[arg-type]

    monkeypatch.setattr("piecework.saga.compensation.compensation_plan", forwards)

    violations = run(Job("six", chunks=3, seed=1), None).violations

    assert 2 == len([said for said in violations if said.startswith("I8: customer")])


def test_a_step_without_compensation_is_detected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    original = engine.compensate_stage

    async def forgetful(stage: object, *inputs: object) -> object:
        if getattr(stage, "name", "") == "hotel":
            return None
        return await original(stage, *inputs)  # type: ignore[arg-type]

    monkeypatch.setattr(engine, "compensate_stage", forgetful)

    violations = run(Job("six", chunks=3, seed=1), None).violations

    assert [] != [said for said in violations if said.startswith("I8: customer 1 has")]


def test_compensation_with_changing_keys_is_detected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Dead between an undo and its record: the next worker must be known again."""
    job = Job("six", chunks=3, seed=1)
    shops = [
        n for n, p in enumerate(run_without_fault(job).points) if " shop" in p.name
    ]
    fault = InjectedFault(shops[-1], Mode.APPLIED)
    assert [] == run_with_fault(job, fault).violations
    numbers = count()

    def another(key: str, gen: int) -> str:
        return f"{key}-{gen}-{next(numbers)}"

    monkeypatch.setattr("piecework.domain.keys.provider_key", another)

    violations = [said for _, said in run_with_fault(job, fault).violations]
    assert [] != [said for said in violations if said.startswith("I8: customer")]


def test_booking_events_are_compared_strictly() -> None:
    refused = Customer(n=1, kind="car:refused")
    right = [
        BookingEvent(what, 1, undone=undone)
        for what, undone in expected_bookings(refused)
    ]

    assert ["flight", "hotel", "car", "hotel", "flight"] == [e.what for e in right]
    assert [] == list(compensation_violations([refused], right))
    for wrong in ([*right, right[-1]], right[:-1], [right[1], right[0], *right[2:]]):
        assert 1 == len(list(compensation_violations([refused], wrong)))
    assert list(STEPS) == [what for what, _ in expected_bookings(Customer(n=1))]
