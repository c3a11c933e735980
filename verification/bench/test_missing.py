from __future__ import annotations

from pathlib import Path

import pytest

from bench.adapters import rival
from bench.plan import PlanOptions, plan
from bench.runner import Runner
from tests.apart import NotInstalledError


@pytest.fixture(autouse=True)
def _no_index(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(lock: str) -> Path:
        raise NotInstalledError(f"{lock} is not to be had")

    monkeypatch.setattr(rival, "bin_of", refuse)
    rival.unavailable_reason.cache_clear()


def test_a_rival_that_cannot_be_installed_is_recorded_with_the_reason(
    tmp_path: Path,
) -> None:
    steps = plan(PlanOptions(workloads=("W1",), systems=("celery", "dbos")))

    records = Runner(tmp_path, lambda _: None).run(steps)
    rival.unavailable_reason.cache_clear()

    assert [
        ("Celery", "not installed: bench-sqs is not to be had"),
        ("DBOS", "not installed: bench-postgres is not to be had"),
    ] == [(record.system, record.error) for record in records]
