"""Another version of a pipeline is deployed in a schedule, and its checks notice."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from piecework_simulation.driver import deployments
from piecework_simulation.driver.deployments import ACTS, LATER
from piecework_simulation.driver.inputs import WORKLOADS
from piecework_simulation.driver.pipelines import travel
from piecework_simulation.driver.schedule import run_schedule
from piecework_simulation.invariants.acts import ActInvariants

CHUNK = ("tenant", "job", 0)
TRAVEL = [each for each in WORKLOADS if each.pipeline.name == travel.name]


def end(acts: dict[str, list[int]], **facts: Any) -> list[str]:
    """Return what is said of a chunk with this end: how often each call happened."""
    said: list[str] = []
    calls = {f"{act}-{n}": n for act, found in acts.items() for n in found}
    records: Any = {name: SimpleNamespace(active=n) for name, n in calls.items()}
    invariants = ActInvariants(said.append, records, {travel.name: ACTS})
    for name in records:
        invariants.note(travel.name, CHUNK, name.partition("-")[0], name)
    invariants.check_end(travel.name, CHUNK, facts)
    return [text.partition(":")[0] for text in said]


ALL = {act: [1] for act in ACTS.needed}


@pytest.mark.parametrize(
    ("acts", "facts", "said"),
    [
        (ALL, {"status": "SUCCEEDED"}, []),
        (ALL | {"flight": [1, 2]}, {"status": "SUCCEEDED"}, ["I29"]),
        (ALL | {"flight": [0, 2]}, {"status": "SUCCEEDED"}, []),
        (ALL | {"flight": [0]}, {"status": "SUCCEEDED"}, ["I30"]),
        ({"flight": [1]}, {"status": "DEAD", "compensation": "NOT_NEEDED"}, ["I31"]),
        ({"flight": [1]}, {"status": "DEAD", "compensation": "FAILED"}, []),
        ({"payment": [1]}, {"status": "DEAD", "compensation": "NOT_NEEDED"}, []),
    ],
)
def test_an_act_that_is_doubled_skipped_or_left_is_noticed(
    acts: dict[str, list[int]], facts: dict[str, Any], said: list[str]
) -> None:
    assert said == end(acts, **facts)


def test_deployments_violate_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deployments, "SHARE", 1.0)

    verdicts = [run_schedule(seed, TRAVEL) for seed in range(1, 1 + len(LATER))]

    assert [] == [text for each in verdicts for text in each.violations]
    assert len(verdicts) == sum(each.fired["operator.deploy"] for each in verdicts)
