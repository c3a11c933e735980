from __future__ import annotations

from pathlib import Path

import pytest

from bench.plan import PlanOptions, plan
from bench.runner import Runner


@pytest.mark.slow
def test_a_small_job_is_done_counted_and_timed(
    tmp_path: Path, emulator_python: Path
) -> None:
    steps = plan(PlanOptions(workloads=("W1",), systems=("piecework",), tasks=20))
    said: list[str] = []

    (record,) = Runner(tmp_path / "bench", said.append).run(steps)

    values = record.values
    assert ("", 20, 0, 0) == (
        record.error,
        values["tasks"],
        values["lost"],
        values["repeated"],
    )
    assert 20 <= record.counts["dynamodb.UpdateItem"][0]
    assert 1 < values["requests_per_task"] < 10
    assert values["write_units_per_task"] > 1
    assert "W1 piecework #1" in said[0]
