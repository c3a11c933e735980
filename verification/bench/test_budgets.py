from __future__ import annotations

from bench import budgets
from verification.bench.records import record, results

GOOD = (
    record(
        "W1",
        "piecework",
        requests_per_task=2.3,
        worker_cpu_s_per_1000=0.9,
        drain_per_s=1200,
        lost=0,
    ),
    record("W1", "boto3 loop", worker_cpu_s_per_1000=1.8, drain_per_s=600),
    record("W0", "piecework", makespan_s=22, paid_twice=0, lost=0),
    record("W0", "bare asyncio loop", makespan_s=20),
    record("W4", "piecework", variant="100 chunks", requests_per_task=2.4),
    record("W4", "piecework", variant="1000 chunks", requests_per_task=2.4),
    record("W4", "piecework", variant="64 in progress", worker_rss_mb=110),
)


def test_a_met_budget_is_shown_with_its_limit() -> None:
    lines = budgets.lines(budgets.evaluate_budgets(results(*GOOD)))

    assert "requests_per_chunk=2.3 (<=2.5)" == lines[0]
    assert "worker_cpu_x_boto3_loop=0.5 (<=1)" in lines
    assert "makespan_x_bare_loop=1.1 (<=1.15)" in lines
    assert "growth_requests_ratio=1 (<=1.05; 1,000 chunks over 100)" in lines
    assert 8 == len([line for line in lines if "MISSED" not in line])


def test_a_missed_budget_is_shown_and_is_no_failure() -> None:
    slow = results(
        record("W1", "piecework", drain_per_s=500, lost=0),
        record("W1", "boto3 loop", drain_per_s=1000),
    )

    assert "drain_x_boto3_loop=0.5 (>=1) MISSED" in budgets.lines(
        budgets.evaluate_budgets(slow)
    )
    assert 0 == budgets.exit_code(slow)


def test_an_unmeasured_budget_is_not_met() -> None:
    figures = {each.name: each for each in budgets.evaluate_budgets(results())}

    assert not figures["worker_rss_mb"].met
    assert "worker_rss_mb=- (<=150) not measured" == figures["worker_rss_mb"].line


def test_a_lost_or_twice_paid_task_of_piecework_fails_the_run() -> None:
    theirs = record("W2b", "celery", paid_twice=2_430, lost=1)

    assert 0 == budgets.exit_code(results(*GOOD, theirs))
    assert 1 == budgets.exit_code(results(*GOOD, record("W3", "piecework", lost=1)))
    assert 1 == budgets.exit_code(results(record("W2b", "piecework", paid_twice=1)))


def test_an_unfinished_run_of_piecework_fails_the_run() -> None:
    broken = record("W3", "piecework", error="it has not settled")

    assert 1 == budgets.exit_code(results(*GOOD, broken))
