"""`make on-aws`: what it refuses, when it stops, and that it always removes."""

from __future__ import annotations

import json
import signal
from argparse import Namespace
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from piecework_orchestrator.cost.prices import load_prices
from verification.on_aws.__main__ import carried_out, refused
from verification.on_aws.estimate import estimate
from verification.on_aws.report import Report

Act = Callable[[], dict[str, Any]]
CHUNKS = 20_000


class Scripted:
    """A run whose steps a test has written."""

    def __init__(self, steps: dict[str, Act], spent: float = 0.0) -> None:
        self.acts, self.usd, self.done = steps, spent, list[str]()
        self.jobs = ["northwind"]

    def steps(self) -> Iterator[tuple[str, Act]]:
        for name, act in self.acts.items():
            self.done.append(name)
            yield name, act

    def spent(self) -> float:
        return self.usd

    def remove(self) -> list[str]:
        self.done.append("removed")
        return []


def found() -> dict[str, Any]:
    return {"chunks": 1}


def fails() -> dict[str, Any]:
    raise RuntimeError("no such table")


def interrupted() -> dict[str, Any]:
    raise KeyboardInterrupt


@pytest.fixture
def go(tmp_path: Path) -> Iterator[Callable[..., tuple[int, dict[str, Any]]]]:
    """Carry out a run; return the exit code and the report."""
    before = signal.getsignal(signal.SIGINT)

    def run(scripted: Any, budget: float = 5.0) -> tuple[int, dict[str, Any]]:
        args = Namespace(budget=budget, remove="", report=str(tmp_path / "report"))
        expected = estimate(load_prices(), "us-east-1", CHUNKS, with_service=False)
        report = Report("********1234", "us-east-1", "tryabc", expected, budget)
        code = carried_out(scripted, report, args)
        path = tmp_path / "report.json"
        return code, json.loads(path.read_text()) if path.exists() else {}

    yield run
    signal.signal(signal.SIGINT, before)


def test_without_a_profile_or_a_budget_nothing_starts() -> None:
    asked = {"emulator": False, "profile": "", "budget": 0.0, "region": ""}
    assert "PROFILE=" in refused(Namespace(**asked))
    assert "BUDGET_USD=" in refused(Namespace(**asked | {"profile": "trial"}))
    unknown = Namespace(**asked | {"profile": "of-nobody", "budget": 5.0})
    assert "of-nobody" in refused(unknown)
    assert not refused(Namespace(**asked | {"emulator": True}))


def test_an_estimate_above_the_budget_creates_nothing(go: Any) -> None:
    scripted = Scripted({"deploy": found})
    assert go(scripted, budget=0.01) == (2, {})
    assert scripted.done == []


@pytest.mark.parametrize("act", [fails, interrupted])
def test_everything_is_removed_after_a_failure_and_an_interruption(
    go: Any, act: Act
) -> None:
    scripted = Scripted({"deploy": found, "demo": act, "submit": found})
    code, report = go(scripted)
    assert (code, scripted.done) == (1, ["deploy", "demo", "removed"])
    assert report["is_complete"] is False


def test_a_step_that_could_exceed_the_budget_is_not_begun(go: Any) -> None:
    scripted = Scripted({"deploy": found, "submit": found}, spent=4.99)
    code, report = go(scripted)
    assert (code, scripted.done) == (1, ["deploy", "removed"])
    assert "the budget" in report["stopped"]
    assert report["steps"] == []


def test_a_complete_run_says_so_in_both_reports(go: Any, tmp_path: Path) -> None:
    code, report = go(Scripted({"deploy": found, "demo": found}))
    assert (code, report["left"]) == (0, [])
    text = (tmp_path / "report.md").read_text()
    assert "| demo | 0.0 | ok | chunks 1 |" in text
    assert "nothing is left" in text
