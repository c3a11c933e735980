"""Schedules of the simulator, in small numbers; `make simulate` runs many."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path

from piecework_simulation.driver.inputs import WORKLOADS, Inputs
from piecework_simulation.driver.schedule import run_schedule
from piecework_simulation.engine.world import World
from piecework_simulation.runner import run_schedules

ROOT = Path(__file__).parents[2]


def test_few_schedules_cover_every_fault_and_transition_and_violate_nothing() -> None:
    total = run_schedules(Inputs(), range(151, 301), processes=1)
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
