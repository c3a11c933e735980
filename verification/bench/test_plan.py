from __future__ import annotations

import pytest

from bench.adapters.systems import PIECEWORK, RIVALS
from bench.plan import PlanOptions, plan


def test_the_full_form_gives_every_system_what_it_can_take() -> None:
    steps = plan(PlanOptions(form="full"))

    for workload in ("W1", "W2a", "W2b", "W3"):
        given = {step.system for step in steps if step.workload == workload}
        able = {rival.name for rival in RIVALS if workload not in rival.without}
        assert able == given - {PIECEWORK}


def test_a_rival_is_named_by_a_short_word() -> None:
    steps = plan(
        PlanOptions(workloads=("W1",), systems=("piecework", "celery"), tasks=7)
    )

    assert [(PIECEWORK, 7), ("Celery", 7)] == [(s.system, s.config["n"]) for s in steps]


def test_the_calls_of_both_kinds_are_one_workload() -> None:
    options = PlanOptions(workloads=("W2",), systems=("piecework", "taskiq"))

    assert ["W2a taskiq", "W2b piecework", "W2b taskiq"] == [
        step.name for step in plan(options)
    ]


def test_no_two_runs_of_a_round_have_the_same_name() -> None:
    names = [step.name for step in plan(PlanOptions(form="full"))]

    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("largest", "jobs"),
    [(0, 4), (1_000, 2), (10_000, 3)],
)
def test_the_largest_job_is_run_if_it_is_asked_for(largest: int, jobs: int) -> None:
    steps = plan(PlanOptions(form="full", workloads=("W4",), largest=largest))
    sizes = ["100 chunks", "1000 chunks", "10000 chunks", "100000 chunks"]

    assert sizes[:jobs] == [
        step.variant for step in steps if step.variant.endswith("chunks")
    ]
