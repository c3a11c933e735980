"""Run many schedules: order, progress, and stop signals."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from piecework_simulation.driver.inputs import Inputs
from piecework_simulation.runner import Progress, StopSignals, Totals, run_schedules


def test_a_run_that_is_stopped_has_run_the_first_seeds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sums: list[int] = []
    total = run_schedules(
        Inputs(),
        range(1, 100),
        processes=1,
        report=lambda total: sums.append(total.schedules),
        stopped=lambda: len(sums) > 1,
    )
    assert [1, 2] == sums
    assert 2 == total.schedules


def test_a_signal_is_noted_and_the_next_one_ends_the_run() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with StopSignals() as stop:
        assert 0 == stop.code
        os.kill(os.getpid(), signal.SIGTERM)
        assert 128 + signal.SIGTERM == stop.code
        assert signal.SIG_DFL == signal.getsignal(signal.SIGTERM)
    assert before == signal.getsignal(signal.SIGTERM)


def test_a_violation_is_printed_at_once_and_the_progress_each_second(
    capsys: pytest.CaptureFixture[str],
) -> None:
    shown = Progress(1_000_000, began=100.0)
    shown.tell(100.9)
    shown.tell(101.0)
    shown.report(Totals(schedules=2_000, violations=[(7, ["I6"])]))
    for now in (101.5, 102.0, 103.0, 700.0, 705.0, 710.3):
        shown.tell(now)
    said = capsys.readouterr().err.splitlines()
    assert said == [
        "0 of 1,000,000 schedules, 0 violations, 0.0 a second",
        "seed 7: I6",
        "2,000 of 1,000,000 schedules, 1 violation, 1000.0 a second",
        "2,000 of 1,000,000 schedules, 1 violation, 666.7 a second",
        "2,000 of 1,000,000 schedules, 1 violation, 3.3 a second",
        "2,000 of 1,000,000 schedules, 1 violation, 3.3 a second",
    ]


def test_the_progress_is_told_while_a_schedule_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told = threading.Event()
    monkeypatch.setattr(Progress, "tell", lambda *_: told.set())
    with Progress(5, began=0.0):
        assert told.wait(10.0)
    assert capsys.readouterr().err == ""
