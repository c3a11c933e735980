from __future__ import annotations

from dataclasses import replace

from bench import tables
from bench.results import Spread
from verification.bench.records import record, results

RUNS = (
    record("W1", "piecework", requests_per_task=2.25, drain_per_s=1200.0),
    record("W1", "DBOS", requests_per_task=0.0, drain_per_s=393.0),
    record("W1", "Celery", error="it ended with 1:\nlong story"),
)


def test_each_system_has_its_row_with_the_figures_that_mean_something() -> None:
    (table,) = tables.tables(results(*RUNS))

    assert ("", "req/task", "drain/s", "foreign") == table.heads
    assert ("piecework", "2.25", "1,200", "0.00") == table.rows[0]
    assert ("DBOS", "", "393", "0.00") == table.rows[1]


def test_a_failed_system_is_shown_with_its_reason() -> None:
    (table,) = tables.tables(results(*RUNS))

    assert ("Celery", "failed: it ended with 1:", "", "") == table.rows[2]


def test_a_workload_that_every_system_failed_has_reasons() -> None:
    failed = record("W1", "piecework", error="interrupted")

    shown = tables.text(results(failed)).splitlines()

    assert "piecework  failed: interrupted" == shown[2]


def test_an_excluded_workload_is_shown_with_its_reason() -> None:
    (table,) = tables.tables(results(record("W2a", "Celery", makespan_s=5.0)))

    reasons = {row[0]: row[1] for row in table.rows[1:]}
    assert {"piecework", "DBOS", "Temporal"} == set(reasons)
    assert all(
        failure_reason.startswith("not run: ") for failure_reason in reasons.values()
    )


def test_a_range_is_shown_where_it_says_more() -> None:
    assert "2.00" == tables.cell(Spread((2.0, 2.001)), 2)
    assert "2.0 (1.0-3.0)" == tables.cell(Spread((1.0, 2.0, 3.0)), 1)


def test_a_reason_runs_over_the_columns_of_the_terminal() -> None:
    shown = tables.text(results(*RUNS)).splitlines()

    assert "W1: " == shown[0][:4]
    assert shown[1].index("drain/s") + len("drain/s") == shown[2].index("1,200") + 5
    assert "Celery     failed: it ended with 1:" == shown[4]


def test_the_page_has_the_same_table() -> None:
    (table,) = tables.tables(results(*RUNS))

    lines = tables.markdown(table).splitlines()

    assert "| --- | ---: | ---: | ---: |" == lines[1]
    assert "| piecework | 2.25 | 1,200 | 0.00 |" == lines[2]


def test_aws_requests_are_shown_by_operation() -> None:
    counts = {"dynamodb.UpdateItem": [20.0, 20.0, 30.0, 0.0, 0.0]}
    run = replace(record("W1", "piecework", tasks=10), counts=counts)

    (_, table) = tables.tables(results(run))

    assert (("dynamodb.UpdateItem", "2.000", "2.000", "3.000"),) == table.rows
