"""An invariant fails without each guard of the real code."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from piecework_simulation.driver import actions, schedule
from piecework_simulation.driver.actions import Workload
from piecework_simulation.driver.inputs import WORKLOADS
from piecework_simulation.driver.schedule import run_schedule
from piecework_simulation.engine.faults import swarm
from tests.simulation.planted import NEEDED, OF_BATCHES, PLANTED, SLOW_TO_SHOW


@pytest.mark.parametrize("plant", sorted(PLANTED.keys() - SLOW_TO_SHOW, key=str))
def test_a_removed_guard_is_detected(
    plant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken_away, invariants = PLANTED[plant]
    taken_away(monkeypatch)
    needed = NEEDED.get(plant, {})
    monkeypatch.setattr(schedule, "swarm", lambda rng: swarm(rng) | needed)
    monkeypatch.setattr(actions, "MAX_END_S", 900.0)
    # A job above its children takes longer to simulate, and shows no guard sooner.
    monkeypatch.setattr(
        actions, "in_children", lambda pipeline, rows, _: (pipeline, rows)
    )
    works = WORKLOADS[-1:] if plant in OF_BATCHES else WORKLOADS
    assert any(violations(seed, works) & invariants for seed in range(1, 400))


def violations(seed: int, works: Sequence[Workload]) -> set[str]:
    """Return the invariants that a schedule violated."""
    return {said.partition(":")[0] for said in run_schedule(seed, works).violations}
