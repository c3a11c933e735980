from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from bench.adapters import rival as theirs
from bench.adapters.product import lease
from bench.adapters.rival import RivalAdapter
from bench.adapters.systems import RIVALS
from bench.meter import Counts
from piecework.settings import load_settings


@dataclass
class PlanOptions:
    """A stand where this much was asked of AWS."""

    counts_: dict[str, list[float]] = field(default_factory=dict)

    def counts(self) -> Counts:
        return Counts.read(self.counts_)


def test_a_rival_has_settled_when_it_asks_for_nothing_but_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    moments = iter([0.0, 0.2, 0.4, 0.8])
    monkeypatch.setattr(theirs.time, "monotonic", lambda: next(moments))
    open_environment: Any = PlanOptions()
    rival = RivalAdapter(open_environment, RIVALS[0])

    open_environment.counts_["sqs.DeleteMessage"] = [1, 1, 0, 0, 0]
    assert not rival.settled()
    open_environment.counts_["sqs.DeleteMessage"] = [2, 2, 0, 0, 0]
    assert not rival.settled()
    open_environment.counts_["sqs.ReceiveMessage"] = [9, 9, 0, 0, 0]
    assert not rival.settled()
    assert rival.settled()


@pytest.mark.parametrize("rival", RIVALS, ids=lambda rival: rival.name)
def test_each_rival_has_its_script_and_its_lock(rival: Any) -> None:
    root = Path(theirs.__file__).parents[2]

    assert (theirs.SCRIPTS / f"{rival.script}.py").exists()
    assert (root / "requirements" / f"{rival.lock}.txt").exists()


def test_the_lease_of_a_run_makes_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in lease(5).items():
        monkeypatch.setenv(name, value)

    settings = load_settings()

    assert (5.0, 6.0) == (settings.lease_s, settings.visibility_s)
