"""Schedules of the simulator, in small numbers; `make simulate` runs many."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path

import pytest

from piecework_simulation.driver import actions, schedule
from piecework_simulation.driver.inputs import WORKLOADS, Inputs
from piecework_simulation.driver.schedule import run_schedule
from piecework_simulation.engine.faults import swarm
from piecework_simulation.engine.world import World
from piecework_simulation.runner import run_schedules
from tests.simulation.planted import NEEDED, PLANTED, SLOW_TO_SHOW

ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(600)  # about 40 s of CPU, more on a busy machine
def test_few_schedules_cover_every_fault_and_transition_and_violate_nothing() -> None:
    total = run_schedules(Inputs(), range(1, 151), processes=1)
    assert [] == total.violations
    assert 150 == total.schedules
    assert [] == total.never_fired
    assert [] == total.never_taken


def test_a_seed_has_one_trace_byte_for_byte() -> None:
    def trace(hash_seed: str) -> bytes:
        return subprocess.run(
            [sys.executable, "-m", "piecework_simulation", "--seed", "190", "--trace"],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            check=True,
        ).stdout

    first = trace("1")
    assert b"the faults end" in first
    assert first == trace("2")


def test_a_world_is_freed_after_its_schedule() -> None:
    earlier = worlds()
    run_schedule(190, WORKLOADS)
    gc.collect()
    assert all(any(world is known for known in earlier) for world in worlds())


def worlds() -> list[World]:
    """Return the worlds that are still referenced."""
    return [each for each in gc.get_objects() if isinstance(each, World)]


@pytest.mark.parametrize("plant", sorted(PLANTED.keys() - SLOW_TO_SHOW, key=str))
def test_a_removed_guard_is_detected(
    plant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken_away, invariants = PLANTED[plant]
    taken_away(monkeypatch)
    needed = dict.fromkeys(NEEDED.get(plant, ()), 0.5)
    monkeypatch.setattr(schedule, "swarm", lambda rng: swarm(rng) | needed)
    monkeypatch.setattr(actions, "MAX_END_S", 900.0)
    assert any(violations(seed) & invariants for seed in range(1, 400))


def violations(seed: int) -> set[str]:
    """Return the invariants that a schedule violated."""
    return {said.partition(":")[0] for said in run_schedule(seed, WORKLOADS).violations}
