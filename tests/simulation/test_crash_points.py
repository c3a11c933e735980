"""A small crash-point sweep, and that it finds what it looks for."""

from __future__ import annotations

import pytest

from simulation.actors import Cast
from simulation.crash_points.explore import struck
from simulation.crash_points.findings import Kind
from simulation.crash_points.run import Job, run, undisturbed
from simulation.crash_points.scenarios import SCENARIOS
from simulation.crash_points.strikes import Mode, Strike
from simulation.outside import Outside

#: Those struck at calls alone; for the others see `test_six_steps.py`.
AT_CALLS = [name for name, scenario in SCENARIOS.items() if not scenario.steps]


@pytest.mark.parametrize("scenario", AT_CALLS)
def test_a_death_at_any_call_loses_and_doubles_nothing(scenario: str) -> None:
    job = Job(scenario, chunks=3, seed=1)

    findings = [struck(job, strike) for strike in every_second(job)]

    assert [] == [(f.strike, f.broken) for f in findings if f.broken]


def test_all_ways_of_dying_are_met_in_every_scenario() -> None:
    for scenario in AT_CALLS:
        job = Job(scenario, chunks=3, seed=1)
        assert set(Mode) == {strike.mode for strike in every_second(job)}


def test_the_same_strike_gives_the_same_trace_word_for_word() -> None:
    job, strike = Job("undo", chunks=3, seed=1), Strike(100, Mode.APPLIED)

    first = run(job, strike, traced=True)
    second = run(job, strike, traced=True)

    assert first.trace == second.trace
    assert any("STRUCK applied" in line for line in first.trace)


def test_what_happens_twice_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job("saga", chunks=3, seed=1)
    desk = at_first(job, "desk")
    assert [] == struck(job, Strike(desk, Mode.APPLIED)).broken

    async def finds_nothing(*_: object) -> None:
        """Forget what was done."""

    monkeypatch.setattr(Outside, "look_up", finds_nothing)

    broken = struck(job, Strike(desk, Mode.APPLIED)).broken
    assert Kind.DOUBLE in {kind for kind, _ in broken}


def test_what_does_not_go_on_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simulation.crash_points.run.WORKERS", 1)
    monkeypatch.setattr(Cast, "later", lambda *_: None)  # nobody replaces the dead
    job = Job("plain", chunks=3, seed=2)

    broken = struck(job, Strike(at_first(job, "model"), Mode.BEFORE)).broken

    assert {Kind.UNENDED, Kind.LOST} <= {kind for kind, _ in broken}


def at_first(job: Job, what: str) -> int:
    """Return the first point at which something is called."""
    names = [point.name for point in undisturbed(job).points]
    return next(n for n, name in enumerate(names) if name.endswith(f" {what}"))


def every_second(job: Job) -> list[Strike]:
    """Return a strike at every second point, in each way in turn."""
    points = undisturbed(job).points
    return [
        Strike(n, points[n].modes[n // 2 % len(points[n].modes)])
        for n in range(0, len(points), 2)
    ]


@pytest.mark.parametrize(
    "strike", [Strike(4, Mode.BEFORE), Strike(148, Mode.LOST)], ids=str
)
def test_a_cancel_that_meets_a_chunk_as_it_is_loaded_undoes_it(strike: Strike) -> None:
    assert not struck(Job("undo", chunks=22, seed=1), strike).broken
