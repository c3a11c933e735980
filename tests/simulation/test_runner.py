"""Run many schedules: order, progress, and stop signals."""

from __future__ import annotations

import os
import signal
from types import SimpleNamespace

import pytest

from piecework_simulation import runner
from piecework_simulation.driver.inputs import Inputs
from piecework_simulation.runner import Progress, StopSignals, Totals, run_schedules


def test_a_run_that_is_stopped_has_run_the_first_seeds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(runner, "SEEDS_PER_GROUP", 2)
    sums: list[int] = []
    total = run_schedules(
        Inputs(),
        range(1, 100),
        processes=1,
        report=lambda total: sums.append(total.schedules),
        stopped=lambda: len(sums) > 1,
    )
    assert [2, 4] == sums
    assert 4 == total.schedules


def test_a_signal_is_noted_and_the_next_one_ends_the_run() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with StopSignals() as stop:
        assert 0 == stop.code
        os.kill(os.getpid(), signal.SIGTERM)
        assert 128 + signal.SIGTERM == stop.code
        assert signal.SIG_DFL == signal.getsignal(signal.SIGTERM)
    assert before == signal.getsignal(signal.SIGTERM)


def test_a_violation_is_printed_at_once_and_the_progress_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    moments = iter((110.0, 140.0, 141.0))
    clock = SimpleNamespace(monotonic=lambda: next(moments))
    monkeypatch.setattr(runner, "time", clock)
    shown = Progress(1_000_000, began=100.0)
    total = Totals(schedules=2_000, violations=[(7, ["I6"])])
    for _ in range(3):
        shown.report(total)
    said = "seed 7: I6\n2,000 of 1,000,000 schedules, 1 violations, 50.0 a second\n"
    assert said == capsys.readouterr().err
