"""Run a small crash-point sweep, and test that it detects violations."""

from __future__ import annotations

import pytest

from piecework_simulation.crash_points.explore import Kind, run_with_fault
from piecework_simulation.crash_points.fault_points import InjectedFault, Mode
from piecework_simulation.crash_points.run import Job, run, run_without_fault
from piecework_simulation.crash_points.scenarios import SCENARIOS
from piecework_simulation.driver.processes import FleetDriver
from piecework_simulation.provider import Provider

#: Scenarios with faults at calls only; `test_six_steps.py` has the others. The idle
#: polls of `ask` differ between two runs; `make crashpoints` has it.
AT_CALLS = [
    name for name, scenario in SCENARIOS.items() if not scenario.steps and name != "ask"
]


#: `make crashpoints` has a fault at each point; here is one at each seventh.
STEP = 7


@pytest.mark.parametrize("scenario", AT_CALLS)
def test_a_death_at_any_call_loses_and_doubles_nothing(scenario: str) -> None:
    job = Job(scenario, chunks=3, seed=1)

    findings = [run_with_fault(job, fault) for fault in some_of(job)]

    assert [] == [(f.fault, f.violations) for f in findings if f.violations]


def test_every_scenario_has_every_fault_mode() -> None:
    for scenario in AT_CALLS:
        job = Job(scenario, chunks=3, seed=1)
        assert set(Mode) == {fault.mode for fault in some_of(job)}


def test_the_same_fault_gives_an_identical_trace() -> None:
    job, fault = Job("compensate", chunks=3, seed=1), InjectedFault(100, Mode.APPLIED)

    first = run(job, fault, traced=True)
    second = run(job, fault, traced=True)

    assert first.trace == second.trace
    assert any("FAULT applied" in line for line in first.trace)


def test_a_repeated_effect_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job("saga", chunks=3, seed=1)
    faults = [InjectedFault(n, Mode.APPLIED) for n in all_of(job, "desk")]

    def doubled() -> bool:
        found = (run_with_fault(job, fault).violations for fault in faults)
        return any(Kind.DOUBLE in dict(violations) for violations in found)

    assert not doubled()

    async def finds_nothing(*_: object) -> None:
        """Return nothing, as if the booking was unknown."""

    monkeypatch.setattr(Provider, "look_up", finds_nothing)

    assert doubled()


def test_a_job_that_never_ends_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("piecework_simulation.crash_points.run.WORKERS", 1)
    monkeypatch.setattr(
        FleetDriver, "restart_later", lambda *_: None
    )  # dead processes are not replaced
    job = Job("plain", chunks=3, seed=2)

    violations = run_with_fault(
        job, InjectedFault(all_of(job, "model")[0], Mode.BEFORE)
    ).violations

    assert {Kind.UNENDED, Kind.LOST} <= {kind for kind, _ in violations}


def all_of(job: Job, what: str) -> list[int]:
    """Return the points at which something is called."""
    names = [point.name for point in run_without_fault(job).points]
    return [n for n, name in enumerate(names) if name.endswith(f" {what}")]


def some_of(job: Job) -> list[InjectedFault]:
    """Return a fault at every seventh point, in rotating modes."""
    points = run_without_fault(job).points
    return [
        InjectedFault(n, points[n].modes[n // STEP % len(points[n].modes)])
        for n in range(0, len(points), STEP)
    ]


@pytest.mark.parametrize(
    "fault", [InjectedFault(4, Mode.BEFORE), InjectedFault(148, Mode.LOST)], ids=str
)
def test_a_cancel_while_a_chunk_is_loaded_compensates_it(
    fault: InjectedFault,
) -> None:
    assert not run_with_fault(Job("compensate", chunks=22, seed=1), fault).violations
