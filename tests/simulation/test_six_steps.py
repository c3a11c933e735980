"""Kill a worker at any `await` of a saga of six steps: a sample.

`python -m piecework_simulation.crash_points --scenario six` tries all of them;
`--scenario six-compensate` tries all of the compensation.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest

from piecework.saga.compensation import CompensationStep, compensation_plan
from piecework_simulation.crash_points.explore import run_with_fault
from piecework_simulation.crash_points.fault_points import STEP, InjectedFault, Mode
from piecework_simulation.crash_points.pipelines import Customer
from piecework_simulation.crash_points.run import Job, run, run_without_fault
from piecework_simulation.crash_points.scenarios import expected_bookings

SCENARIOS = ("six", "six-compensate")
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


def test_without_a_crash_no_refused_step_is_compensated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def certain(customer: Customer) -> list[list[tuple[str, bool]]]:
        return expected_bookings(customer)[:1]

    module = "piecework_simulation.crash_points.scenarios"
    monkeypatch.setattr(f"{module}.expected_bookings", certain)

    assert () == tuple(run(Job("six", chunks=3, seed=1), None).violations)


def sample(job: Job) -> Iterator[InjectedFault]:
    """Yield a fault at each await of the saga where it first occurs, and others."""
    met = set()
    for number, point in enumerate(run_without_fault(job).points):
        where = point.name.partition(f" {STEP}")[2]
        first = "engine.py" in where and where not in met
        met.add(where)
        if first or number % EVERY == 0:
            yield InjectedFault(number, point.modes[number % len(point.modes)])


def test_compensation_in_the_wrong_order_is_detected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def forwards(*inputs: object) -> list[CompensationStep]:
        return compensation_plan(*inputs)[::-1]  # type: ignore[arg-type]

    monkeypatch.setattr("piecework.saga.compensation.compensation_plan", forwards)

    violations = run(Job("six", chunks=3, seed=1), None).violations

    assert 2 == len([said for said in violations if said.startswith("I8: customer")])


def test_compensation_with_changing_keys_is_detected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Dead after a compensation, before its record: the next worker is known again."""
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
