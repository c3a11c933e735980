"""Test a pipeline in memory, with faults, in milliseconds.

run = await run_in_memory(pipeline, [Clause(text="..."), ...])
assert run.results == {0: "...", 1: "..."}

The pytest plugin `piecework` offers the same as a fixture: `piecework: Piecework`.
"""

from __future__ import annotations

from piecework.testing.faults import Fault, failing, killed_after, killed_in
from piecework.testing.fixture import Fake, Piecework
from piecework.testing.memory import MemoryRun, run_in_memory

__all__ = [
    "Fake",
    "Fault",
    "MemoryRun",
    "Piecework",
    "failing",
    "killed_after",
    "killed_in",
    "run_in_memory",
]
