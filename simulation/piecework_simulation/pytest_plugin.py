"""The pytest plugin: the fixture `piecework` runs pipelines with faults and fakes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING

import pytest
from pydantic import BaseModel

from piecework.testing import Piecework

if TYPE_CHECKING:
    from piecework.pipelines import Pipeline


@pytest.fixture
def piecework(monkeypatch: pytest.MonkeyPatch) -> Piecework:
    """Run pipelines in memory with faults, fake their calls, and simulate them."""
    return Piecework(monkeypatch, simulate)


def simulate(pipeline: Pipeline, payloads: list[BaseModel], seeds: range) -> str:
    """Return the violations of the first schedule that has some, with its seed.

    Without any, say if no job succeeded: then the schedules have tried little. A single
    schedule, such as one that is replayed, may cancel its jobs.
    """
    # The simulator is loaded only by tests that use it.
    from piecework_simulation.driver.actions import Workload
    from piecework_simulation.driver.schedule import run_schedule
    from piecework_simulation.driver.simulated_pipeline import instrument_pipeline

    def draw(rng: Random) -> Sequence[BaseModel]:
        return rng.choices(payloads, k=rng.randint(1, len(payloads)))

    workload = Workload(instrument_pipeline(pipeline), draw)
    succeeded, codes = 0, Counter[str]()
    for seed in seeds:
        verdict = run_schedule(seed, [workload])
        if verdict.violations:
            again = f"simulate(…, schedules=1, seed={seed})"
            return f"seed {seed}: {'; '.join(verdict.violations)}. Replay: {again}"
        succeeded += verdict.succeeded
        codes.update(verdict.codes)
    if succeeded or len(seeds) == 1:
        return ""
    most = ", ".join(f"{code} {count}" for code, count in codes.most_common(3))
    return f"No job succeeded in {len(seeds)} schedules. Dead letters: {most or 'none'}"
