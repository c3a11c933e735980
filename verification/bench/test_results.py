from __future__ import annotations

from pathlib import Path

from bench.results import Spread, load
from verification.bench.records import record, results


def test_a_figure_is_a_median_with_its_range() -> None:
    found = results(*(record("W1", "piecework", x=value) for value in (3.0, 1.0, 2.0)))

    spread = found.figure("W1", "piecework", "x")

    assert spread is not None
    assert (2.0, 1.0, 3.0) == (spread.median, spread.low, spread.high)


def test_a_run_that_failed_has_no_figure() -> None:
    found = results(record("W1", "celery", error="it broke", x=1.0))

    assert found.figure("W1", "celery", "x") is None
    assert ["it broke"] == [each.error for each in found.errors()]


def test_results_are_read_as_they_were_written(tmp_path: Path) -> None:
    found = results(record("W4", "piecework", variant="2 workers", x=1 / 3))
    found.save(tmp_path / "deep" / "results.json")

    again = load(tmp_path / "deep" / "results.json")

    assert Spread((0.333333,)) == again.figure("W4", "piecework", "x", "2 workers")
    assert found.machine == again.machine
