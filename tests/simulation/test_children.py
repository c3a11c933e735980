"""Children under every fault: each starts once, and no parent waits in vain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest

from piecework.store import job_transitions
from piecework_simulation.coverage import CHILD_TRANSITIONS
from piecework_simulation.driver import mapping_pipeline
from piecework_simulation.driver.inputs import WORKLOADS
from piecework_simulation.driver.schedule import run_schedule

#: They take all transitions between a child and its parent.
SEEDS = (13, 16, 1123, 1129, 1198)
BELOW = [w for w in WORKLOADS if w.pipeline.name in mapping_pipeline.BELOW]


@pytest.fixture(autouse=True)
def all_in_children(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapping_pipeline, "SHARE", 1.0)


def violations(seeds: Iterable[int]) -> tuple[list[str], Counter[str]]:
    found, taken = list[str](), Counter[str]()
    for seed in seeds:
        verdict = run_schedule(seed, BELOW)
        found += verdict.violations
        taken.update(verdict.transitions)
    return found, taken


def test_schedules_with_children_violate_nothing() -> None:
    found, taken = violations(SEEDS)
    assert found == []
    assert all(taken[way] for way in CHILD_TRANSITIONS.values())


def test_a_lost_end_of_a_child_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the entry nor the worker that ended the child tells the parent."""

    async def tell_nothing(*_: object) -> None:
        pass

    monkeypatch.setattr(job_transitions, "end_entry", lambda *_: [])
    monkeypatch.setattr("piecework_worker.executor.tell_parent", tell_nothing)
    found, _ = violations(range(16, 17))
    assert any(text.startswith("L2: ") for text in found)
